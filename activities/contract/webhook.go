package contract

import (
	"encoding/json"
	"time"
)

// WorkflowWebhookDelivery delivers one event to webhooks: [WebhookDeliveryInput]. It lives beside the run that
// starts it, and longer where a receiver is away.
const WorkflowWebhookDelivery = "WebhookDelivery"

// ActivityCallWebhook delivers one event to one webhook: [WebhookInput].
const ActivityCallWebhook = "CallWebhook"

// The events of webhooks.
const (
	EventRequestOpened   = "request.opened"
	EventRequestAnswered = "request.answered"
	EventTurnFinished    = "turn.finished"
	EventRunFinished     = "run.finished"
)

// WebhookEvents are all events of webhooks.
var WebhookEvents = []string{EventRequestOpened, EventRequestAnswered, EventTurnFinished, EventRunFinished}

// Webhook is a receiver that the worker's configuration has, by its name there, and the events that
// it wants. What it is when a run starts holds for the run; where and with which secret it is
// sent, is the configuration's.
type Webhook struct {
	Name   string   `json:"name"`
	Events []string `json:"events"`
}

// WebhookEvent is what a receiver gets, as JSON.
type WebhookEvent struct {
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// WebhookData is the data of an event.
type WebhookData struct {
	// WorkflowID is the run's, RunID Temporal's id of the run or of the first of those that
	// continue it; Flow is the flow's name.
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	Flow       string `json:"flow,omitempty"`
	// Request is one that was opened; Answered is what became of one.
	Request  *Request  `json:"request,omitempty"`
	Answered *Answered `json:"answered,omitempty"`
	// Turn is one of a session that has ended.
	Turn *WebhookTurn `json:"turn,omitempty"`
	// Status is completed, failed or cancelled. ResultText and ResultData are a result of at most
	// 64 KiB; OmittedBytes is the size of a larger one. Error is why there is none.
	Status       string          `json:"status,omitempty"`
	ResultText   *string         `json:"result_text,omitempty"`
	ResultData   json.RawMessage `json:"result_data,omitempty"`
	OmittedBytes int             `json:"omitted_bytes,omitempty"`
	Error        *WebhookError   `json:"error,omitempty"`
}

// WebhookTurn names a turn of a session. ID is its prompt's, "" for the first and for callbacks.
type WebhookTurn struct {
	N  int    `json:"n"`
	ID string `json:"id,omitempty"`
}

// WebhookError is why a run has no result.
type WebhookError struct {
	Class  string `json:"class"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// WebhookDeliveryInput is an event, its id, which is the same for all attempts and receivers, and the
// names of the webhooks that want it.
type WebhookDeliveryInput struct {
	ID    string       `json:"id"`
	Event WebhookEvent `json:"event"`
	Names []string     `json:"names"`
	// Grant is that of the run.
	Grant *Grant `json:"grant,omitempty"`
}

// WebhookInput asks for one delivery.
type WebhookInput struct {
	Name  string       `json:"name"`
	ID    string       `json:"id"`
	Event WebhookEvent `json:"event"`
}
