package contract

import (
	"encoding/json"
	"time"
)

// WorkflowWebhookDelivery delivers one event to webhooks. It takes a [WebhookDeliveryInput]. It runs independently of the
// run that starts it, and outlives that if a receiver is unavailable.
const WorkflowWebhookDelivery = "WebhookDelivery"

// ActivityCallWebhook delivers one event to one webhook. It takes a [WebhookInput].
const ActivityCallWebhook = "CallWebhook"

// The types of webhook events.
const (
	EventRequestOpened   = "request.opened"
	EventRequestAnswered = "request.answered"
	EventTurnFinished    = "turn.finished"
	EventRunFinished     = "run.finished"
)

// WebhookEvents lists all types of webhook events.
var WebhookEvents = []string{EventRequestOpened, EventRequestAnswered, EventTurnFinished, EventRunFinished}

// Webhook is a receiver in the worker's configuration, by its name there, with the events that it subscribes to. The
// subscription is fixed when a run starts; the URL and the secret are always those of the configuration.
type Webhook struct {
	Name   string   `json:"name"`
	Events []string `json:"events"`
}

// WebhookEvent is the body of a delivery, as JSON.
type WebhookEvent struct {
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// WebhookData is the data of an event.
type WebhookData struct {
	// WorkflowID is the run's workflow id, RunID the first run id of its chain; Flow is the flow's name.
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	Flow       string `json:"flow,omitempty"`
	// Request is the request that was opened; Answered is the request that was answered or has expired.
	Request  *Request  `json:"request,omitempty"`
	Answered *Answered `json:"answered,omitempty"`
	// Turn is the turn of a session that has ended.
	Turn *WebhookTurn `json:"turn,omitempty"`
	// Status is completed, failed or cancelled. ResultText and ResultData are a result of at most 64 KiB; OmittedBytes is
	// the size of a larger one. Error is the reason that there is no result.
	Status       string          `json:"status,omitempty"`
	ResultText   *string         `json:"result_text,omitempty"`
	ResultData   json.RawMessage `json:"result_data,omitempty"`
	OmittedBytes int             `json:"omitted_bytes,omitempty"`
	Error        *WebhookError   `json:"error,omitempty"`
}

// WebhookTurn identifies a turn of a session. ID is its prompt's id, "" for the first turn and for callbacks.
type WebhookTurn struct {
	N  int    `json:"n"`
	ID string `json:"id,omitempty"`
}

// WebhookError is the reason that a run has no result.
type WebhookError struct {
	Class  string `json:"class"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// WebhookDeliveryInput is an event, its id, which is the same for all attempts and receivers, and the names of the
// webhooks to deliver it to.
type WebhookDeliveryInput struct {
	ID    string       `json:"id"`
	Event WebhookEvent `json:"event"`
	Names []string     `json:"names"`
	// Grant is the run's grant.
	Grant *Grant `json:"grant,omitempty"`
}

// WebhookInput is the input of the activity CallWebhook.
type WebhookInput struct {
	Name  string       `json:"name"`
	ID    string       `json:"id"`
	Event WebhookEvent `json:"event"`
}
