package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// SettingSecrets is the section of weft.yaml for [Settings.Secrets].
const SettingSecrets = "secrets"

// Secret is a value that flows may use in requests to its hosts. Flows refer to it by name and never contain it.
type Secret struct {
	Value string   `mapstructure:"value" kind:"secret" doc:"value that flows refer to as NAME and never contain; ${VARIABLE} is a variable, or the file given by VARIABLE_FILE. Certificates and keys are PEM, or the path of a PEM file"`
	Hosts []string `mapstructure:"hosts" doc:"hosts to which it may be sent: HOST or HOST:PORT over https, or http://HOST:PORT"`
}

// boundTo reports whether the secret may be sent to an address.
func (s Secret) boundTo(address string) bool {
	at := plan.Origin(address)
	return at != "" && slices.ContainsFunc(s.Hosts, func(h string) bool { return plan.Origin(h) == at })
}

func (s Secret) check(p *problems, at string) {
	p.addIf(s.Value == "", "%s.value: is empty; use ${NAME}, a variable of the environment or, as NAME_FILE, of a file", at)
	s.checkHosts(p, at+".hosts")
}

func (s Secret) checkHosts(p *problems, at string) {
	for _, h := range s.Hosts {
		_, host, ok := strings.Cut(h, "://")
		if !ok {
			host = h
		}
		if strings.ContainsAny(host, "/@?# *") || plan.Origin(h) == "" {
			p.add("%s: %q is not a host; write it as example.com or example.com:8443, for https, or as http://example.com", at, h)
		}
	}
}

// Secret returns the secret that a flow refers to, for use at an address. Its error is a
// *[contract.Failure] of class connection, whose remedy is the setting that allows it.
func (s *Settings) Secret(ref, address string) (string, error) {
	if plan.Origin(address) == "" {
		return "", connectionFailure(fmt.Sprintf("the secret %q is used with an invalid address", ref), "correct the url")
	}
	secret, ok := s.Secrets[ref]
	if s.SecretFor != nil {
		if override, found := s.SecretFor(ref); found {
			secret, ok = override, true
		}
	}
	switch {
	case !ok:
		return "", connectionFailure(fmt.Sprintf("the flow requires the secret %q, which is not configured on the worker", ref), secretLine(ref, plan.ShortOrigin(address)))
	case !secret.boundTo(address):
		return "", connectionFailure(fmt.Sprintf("the flow requires the secret %q at %s, where it may not be used", ref, plan.ShortOrigin(address)), secretLine(ref, append(slices.Clone(secret.Hosts), plan.ShortOrigin(address))...))
	}
	return secret.Value, nil
}

// secretLine returns the remedy that allows a secret at hosts. NAME in it is a placeholder.
func secretLine(ref string, hosts ...string) string {
	quoted := make([]string, len(hosts))
	for i, h := range hosts {
		quoted[i] = fmt.Sprintf("%q", h)
	}
	return allowRemedy(fmt.Sprintf("%s: {%q: {value: \"${NAME}\", hosts: [%s]}}", SettingSecrets, ref, strings.Join(quoted, ", "))) +
		"; NAME is a variable of the worker's environment, or NAME_FILE names a file"
}

// failures collects what is wrong with a connection: texts and remedies, each once.
type failures struct{ texts, remedies []string }

func (f *failures) add(text, remedy string) {
	if !slices.Contains(f.texts, text) {
		f.texts = append(f.texts, text)
	}
	if !slices.Contains(f.remedies, remedy) {
		f.remedies = append(f.remedies, remedy)
	}
}

// err returns one failure with all texts and remedies, and nil if there are none.
func (f *failures) err() error {
	if len(f.texts) == 0 {
		return nil
	}
	return connectionFailure(strings.Join(f.texts, "; "), strings.Join(f.remedies, "; "))
}

// addCredentials adds to out the secrets and variables that a connection refers to.
// Their values never leave this process, except in requests.
func (t *Tools) addCredentials(c *plan.Connection, out *Connection) error {
	var failed failures
	t.addSecrets(c, out, &failed)
	t.fillVariables(c, out, &failed)
	return failed.err()
}

func (t *Tools) addSecrets(c *plan.Connection, out *Connection, failed *failures) {
	get := func(ref string) (string, bool) {
		v, err := t.settings.Secret(ref, c.URL)
		if err != nil {
			f := contract.FailureOf(err)
			failed.add(fmt.Sprintf("connection %q: %s", c.ID, f.Text), f.Remedy)
		}
		return v, err == nil
	}
	for _, h := range c.Secrets {
		value, ok := get(h.Value)
		if !ok {
			continue
		}
		headers := map[string]string{h.Name: value}
		if h.Name == "" {
			headers = nil
			if json.Unmarshal([]byte(value), &headers) != nil {
				failed.add(fmt.Sprintf("connection %q: the secret %q is not a JSON object of headers", c.ID, h.Value),
					fmt.Sprintf(`set %s.%q.value in weft.yaml, or what it names, to text like {"Authorization": "Bearer ..."}`, SettingSecrets, h.Value))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			if invalid := headerProblem(name, headers[name]); invalid != "" {
				failed.add(fmt.Sprintf("connection %q: %s", c.ID, invalid), "correct the header in the flow, or the secret")
			}
			out.Headers[name] = headers[name]
			out.secretValues = append(out.secretValues, headers[name])
		}
	}
	if c.TLS == nil {
		return
	}
	for i, ref := range []string{c.TLS.CA, c.TLS.Cert, c.TLS.Key} {
		if ref != "" {
			*[]*string{&out.CAFile, &out.CertFile, &out.KeyFile}[i], _ = get(ref)
		}
	}
}

// variable matches the references to variables in a header with [plan.Header.Secret].
var variable = regexp.MustCompile(`\$\{env\.([^}]+)\}`)

// fillVariables replaces references to the worker's variables in headers. Variables must be allowed for the server's host.
func (t *Tools) fillVariables(c *plan.Connection, out *Connection, failed *failures) {
	at := plan.ShortOrigin(c.URL)
	for _, h := range c.Headers {
		if !h.Secret {
			continue
		}
		value := variable.ReplaceAllStringFunc(h.Value, func(ref string) string {
			name := ref[len("${env.") : len(ref)-1]
			v, ok := t.settings.Variables[name]
			switch {
			case !ok || !v.boundTo(c.URL):
				failed.add(fmt.Sprintf("connection %q: the header %s requires the variable %s, which may not be sent to %s", c.ID, h.Name, name, at),
					allowRemedy(fmt.Sprintf("%s: {%q: {hosts: [%q]}}", SettingVariables, name, at)))
				return ""
			case v.Value == "":
				failed.add(fmt.Sprintf("connection %q: the header %s requires the variable %s, which is not set", c.ID, h.Name, name),
					fmt.Sprintf("set %s or %s_FILE in the worker's environment", name, name))
			}
			return v.Value
		})
		if problem := headerProblem(h.Name, value); problem != "" {
			failed.add(fmt.Sprintf("connection %q: %s", c.ID, problem), "correct the header, or the variable")
		}
		out.Headers[h.Name] = value
	}
}
