package runtime

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
	"weft/workflows/argument"
	"weft/workflows/plan"
	"weft/workflows/serverrequest"
)

// Limits of the data that clients can make a run store.
const (
	MaxUnread     = 1000
	MaxUnreadSize = 1 << 20
	maxRejects    = 10
	MaxMessage    = 256 << 10
	// MaxName limits user names and idempotency keys, MaxReason the reasons that users state.
	MaxName   = 500
	MaxReason = 1 << 10
)

// Message is a kind of message that clients send to a run, by the Update or the signal of its name.
type Message struct {
	Name    string
	Shape   string // describes the JSON of the argument
	Handler MessageHandler
	signals workflow.ReceiveChannel
}

// MessageHandler handles messages of a kind.
type MessageHandler interface {
	// Admit rejects a message that cannot be accepted now. It has no side effects.
	Admit(raw json.RawMessage) error
	// Take handles an admitted Update, Signalled a signal.
	Take(ctx workflow.Context, raw json.RawMessage) (any, error)
	Signalled(ctx workflow.Context, raw json.RawMessage) error
	// Refused is called with the error of a rejected signal.
	Refused(ctx workflow.Context, err error)
}

// Receive registers Update handlers and signal listeners for kinds of messages.
func (q *Requests) Receive(ctx workflow.Context, kinds ...Message) error {
	var channels []workflow.ReceiveChannel
	for _, m := range kinds {
		err := workflow.SetUpdateHandlerWithOptions(ctx, m.Name, func(ctx workflow.Context, raw converter.RawValue) (any, error) {
			argument.AssertReadable(ctx, raw)
			q.run.Sizes.Accept(ctx, proto.Size(raw.Payload()))
			body, err := argument.JSON(raw, m.Name, m.Shape)
			if err != nil {
				return nil, ToApplicationError(err)
			}
			out, err := m.Handler.Take(ctx, body)
			return out, ToApplicationError(err)
		}, workflow.UpdateHandlerOptions{
			Description: m.Shape,
			Validator: func(ctx workflow.Context, raw converter.RawValue) error {
				body, err := argument.JSON(raw, m.Name, m.Shape)
				if err == nil {
					err = m.Handler.Admit(body)
				}
				if err == nil {
					err = q.AdmitUpdate(ctx, raw)
				}
				return ToApplicationError(err)
			},
		})
		if err != nil {
			return fmt.Errorf("register update %s: %w", m.Name, err)
		}
		m.signals = workflow.GetSignalChannelWithOptions(ctx, m.Name, workflow.SignalChannelOptions{Description: m.Shape})
		q.kinds, channels = append(q.kinds, m), append(channels, m.signals)
	}
	q.Listeners.Add(func() { q.Drain(ctx) }, channels...)
	return nil
}

// ReceiveServerRequests registers the Update by which activities relay the requests of servers, unless the flow calls no tools. f is
// nil if the flow is not known yet.
func (q *Requests) ReceiveServerRequests(ctx workflow.Context, f *plan.Flow) error {
	if f != nil && !f.CallsTools() {
		return nil
	}
	return q.Receive(ctx, Message{Name: contract.UpdateServerRequest, Shape: serverrequest.Shape, Handler: &q.ServerCalls})
}

// Drain processes all signals that have been received.
func (q *Requests) Drain(ctx workflow.Context) {
	for _, m := range q.kinds {
		Each(ctx, q, m.signals, func(body *json.RawMessage, err error) {
			if err == nil {
				err = m.Handler.Signalled(ctx, *body)
			}
			if err != nil {
				q.Refuse(m.Name, err)
				m.Handler.Refused(ctx, err)
			}
		})
	}
}
