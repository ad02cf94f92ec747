package activities

import (
	"context"

	"weft/activities/contract"
)

// Webhook delivers one event to one receiver of the worker's configuration.
func (a *Activities) Webhook(ctx context.Context, in contract.WebhookInput) error {
	return a.toActivityError(ctx, a.deps.Webhooks.Send(ctx, &in))
}
