package activities

import (
	"context"

	"weft/activities/contract"
)

// CallWebhook delivers one event to one receiver of the worker's configuration.
func (a *Activities) CallWebhook(ctx context.Context, in contract.WebhookInput) error {
	return a.toActivityError(ctx, a.deps.Webhooks.Send(ctx, &in))
}
