package main

import (
	"context"
	"fmt"

	"weft/worker/build"
)

// version prints what the build knows about itself.
func (a *app) version(context.Context, []string) error {
	fmt.Fprintln(a.stdout, build.String())
	return nil
}
