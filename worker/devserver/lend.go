package main

import (
	"context"

	"weft/worker/config"
)

// receiveSecrets makes a worker that starter -dev has started accept the secrets in its user's
// documents; a file beside the ready file names the endpoint. A worker that was started by hand accepts
// none.
func (o *options) receiveSecrets(ctx context.Context) error {
	if o.users == "" || o.readyFile == "" || !o.worker || !o.config.Author {
		return nil
	}
	return o.config.RuntimeSecrets.Serve(ctx, o.readyFile+config.SecretsFile)
}
