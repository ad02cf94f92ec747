package tool

import (
	"fmt"
	"net/url"
	"regexp"

	"weft/workflows/plan"
)

// Variable is a value that flows may have sent in headers, without ever seeing it.
type Variable struct {
	// Value is the secret; empty: it is not set.
	Value string
	// Hosts are those to which it may go: host or host:port.
	Hosts []string
}

// variable finds the references of [plan.Header.Secret].
var variable = regexp.MustCompile(`\$\{env\.([^}]+)\}`)

// fill replaces the worker's variables in headers, where they may be sent to the server's host.
func (t *Tools) fill(c plan.Connection, to *Connection) error {
	for _, h := range c.Headers {
		if !h.Secret {
			continue
		}
		u, err := url.Parse(c.URL)
		if err != nil {
			return refusal(fmt.Sprintf("connection %q: the url is not a URL", c.ID), "correct the url of the connection")
		}
		var failed error
		value := variable.ReplaceAllStringFunc(h.Value, func(ref string) string {
			name := ref[len("${env.") : len(ref)-1]
			v, ok := t.settings.Variables[name]
			switch {
			case !ok || !has(v.Hosts, u):
				failed = refusal(fmt.Sprintf("connection %q: the header %s wants the variable %s, which may not go to %s", c.ID, h.Name, name, u.Host),
					allowedBy(fmt.Sprintf("%s: {%q: {hosts: [%q]}}", SettingVariables, name, u.Host)))
			case v.Value == "":
				failed = refusal(fmt.Sprintf("connection %q: the header %s wants the variable %s, which is not set", c.ID, h.Name, name),
					fmt.Sprintf("set %s or %s_FILE in the worker's environment", name, name))
			}
			return v.Value
		})
		if failed != nil {
			return failed
		}
		if problem := headerProblem(h.Name, value); problem != "" {
			return refusal(fmt.Sprintf("connection %q: %s", c.ID, problem), "correct the header, or the variable")
		}
		to.Headers[h.Name] = value
	}
	return nil
}
