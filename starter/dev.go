package main

import (
	"context"
	"fmt"

	"weft/starter/dev"
	"weft/starter/plaintext"
)

// joinDev makes sure that there are a Temporal and a worker, and lets this command use them.
func (a *app) joinDev(ctx context.Context) error {
	a.setStage("what -dev has started ends by itself")
	d, err := dev.Join(ctx, dev.Options{Settings: a.settings(), Say: a.say, Connect: a.connect, Interruptible: a.interruptible})
	if err != nil {
		d.Close()
		return err
	}
	a.dev, a.env = d, d.Settings.Env
	a.setStage("")
	return nil
}

// self begins a command line that reaches what this one reaches.
func (a *app) self() string {
	if a.flags.dev {
		return "starter -dev "
	}
	return "starter "
}

// detachedText says what becomes of a run that is not followed any more, and how to go on.
func (a *app) detachedText(id string) string {
	again := a.self() + "follow " + plaintext.ShellQuote(id)
	if a.flags.dev && a.flags.config != "" {
		again = fmt.Sprintf("starter -dev -config %s follow %s", plaintext.ShellQuote(a.flags.config), plaintext.ShellQuote(id))
	}
	switch {
	case a.dev != nil && a.dev.Embedded:
		return "detached; the embedded Temporal ends with the last command that uses it: then the run is paused; go on with: " + again
	case a.dev != nil && a.dev.Helped:
		return "detached; the worker that -dev started ends with the last command that uses it: then the run is paused; go on with: " + again
	}
	return "detached; the run goes on; follow it with: " + again
}
