package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"weft/specadapter/source"
	"weft/starter/usage"
	"weft/worker/config"
)

// addSecret notes a secret that stands in the flow's document. It is masked from now on.
func (a *app) addSecret(l source.InlineSecret) {
	a.secrets = append(a.secrets, l)
	if !l.File || strings.Contains(l.Value, "-----BEGIN") { // else it may be a path, which errors name
		a.mask.Add(l.Value)
	}
}

// sendSecrets sends the secrets in the flow's document to the worker that -dev has started, or fails without one.
func (a *app) sendSecrets(ctx context.Context) error {
	if len(a.secrets) == 0 {
		return nil
	}
	var names []string
	for i := range a.secrets {
		l := &a.secrets[i]
		names = append(names, source.Quote(l.Ref))
		if l.File && !strings.Contains(l.Value, "-----BEGIN") {
			path, err := filepath.Abs(l.Value) // the worker may run elsewhere
			if err != nil {
				return usage.Errorf("%s: %v", l.Ref, err)
			}
			l.Value = path
		}
	}
	if a.dev == nil || a.dev.Ready == "" {
		return usage.Errorf("the document contains the secrets %s, and the worker of this task queue was not started by -dev; "+
			"replace them by references and set the worker's settings as the warnings say, or stop that worker", strings.Join(names, ", "))
	}
	if err := config.SendSecrets(ctx, a.dev.Ready+config.SecretsFile, a.secrets); err != nil {
		return fmt.Errorf("send the secrets of the document to the worker: %w", err)
	}
	a.say("dev: sent the secrets of the document to the worker, which keeps them in memory: %s", strings.Join(names, ", "))
	return nil
}
