package main

import (
	"context"

	"weft/worker/config"
)

// borrow makes a worker that starter -dev has started take the secrets that stand in its user's
// documents: beside the ready file it says where. A worker that was started by hand takes none.
func (o *options) borrow(ctx context.Context) error {
	if o.users == "" || o.readyFile == "" || !o.worker || !o.config.Author {
		return nil
	}
	return o.config.Lent.Serve(ctx, o.readyFile+config.LentFile)
}
