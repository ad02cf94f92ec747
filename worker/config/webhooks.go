package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/activities/address"
	"weft/activities/webhook"
)

// Hooks opens the receivers of events, with their secrets. The error is of type [Problems] and
// contains no secret.
func (c *Config) Hooks() (*webhook.Hooks, error) {
	var problems Problems
	hooks := map[string]webhook.Hook{}
	for _, name := range slices.Sorted(maps.Keys(c.Webhooks)) {
		w := c.Webhooks[name]
		secrets := ""
		if w.SecretEnv != "" {
			var err error
			if secrets, err = c.secret(w.SecretEnv); err != nil {
				problems = append(problems, fmt.Sprintf("webhooks.%s.secret_env: %v", name, err))
				continue
			}
		}
		hooks[name] = webhook.Hook{URL: w.URL, Secrets: strings.Fields(secrets), Events: w.Events,
			Control: address.New(address.Allowed{Private: w.AllowPrivate}, w.URL).Control}
	}
	out, wrong := webhook.Open(hooks)
	if problems = append(problems, wrong...); len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}
