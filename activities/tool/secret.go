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

// SettingSecrets is the section of weft.yaml that [Settings.Secrets] come from.
const SettingSecrets = "secrets"

// Secret is a value that flows may have sent to some hosts, without ever seeing it.
type Secret struct {
	Value string   `mapstructure:"value" kind:"secret" doc:"value that flows refer to as NAME and never contain; ${VARIABLE} is a variable, or the file given by VARIABLE_FILE. Certificates and keys are PEM, or the path of a PEM file"`
	Hosts []string `mapstructure:"hosts" doc:"hosts to which it may be sent: HOST or HOST:PORT over https, or http://HOST:PORT"`
}

// boundTo reports whether it may be sent to an address.
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

// Secret gives a secret that a flow names, for use at an address. Its error is a
// *[contract.Failure] of class connection, with the lines that allow it.
func (s *Settings) Secret(ref, address string) (string, error) {
	if plan.Origin(address) == "" {
		return "", connectionFailure(fmt.Sprintf("the secret %q is for an invalid address", ref), "correct the url")
	}
	own, ok := s.Secrets[ref]
	if s.SecretFor != nil {
		if override, found := s.SecretFor(ref); found {
			own, ok = override, true
		}
	}
	switch {
	case !ok:
		return "", connectionFailure(fmt.Sprintf("the flow needs the secret %q, which the worker does not have", ref), secretLine(ref, plan.ShortOrigin(address)))
	case !own.boundTo(address):
		return "", connectionFailure(fmt.Sprintf("the flow needs the secret %q at %s, where it may not be used", ref, plan.ShortOrigin(address)), secretLine(ref, append(slices.Clone(own.Hosts), plan.ShortOrigin(address))...))
	}
	return own.Value, nil
}

// secretLine is the setting that allows a secret at hosts. NAME is a placeholder.
func secretLine(ref string, hosts ...string) string {
	quoted := make([]string, len(hosts))
	for i, h := range hosts {
		quoted[i] = fmt.Sprintf("%q", h)
	}
	return allowRemedy(fmt.Sprintf("%s: {%q: {value: \"${NAME}\", hosts: [%s]}}", SettingSecrets, ref, strings.Join(quoted, ", "))) +
		"; NAME is a variable of the worker's environment, or NAME_FILE names a file"
}

// addSecrets adds the secrets that a connection names. The values stay in this process.
func (t *Tools) addSecrets(c *plan.Connection, out *Connection) error {
	var problem error
	get := func(ref string) string {
		v, err := t.settings.Secret(ref, c.URL)
		if err != nil && problem == nil {
			f := contract.FailureOf(err)
			problem = connectionFailure(fmt.Sprintf("connection %q: %s", c.ID, f.Text), f.Remedy)
		}
		return v
	}
	for _, h := range c.Secrets {
		headers := map[string]string{h.Name: get(h.Value)}
		if h.Name == "" && problem == nil && json.Unmarshal([]byte(headers[""]), &headers) != nil {
			problem = connectionFailure(fmt.Sprintf("connection %q: the secret %q is not a JSON object of headers", c.ID, h.Value),
				fmt.Sprintf(`set %s.%q.value in weft.yaml, or what it names, to text like {"Authorization": "Bearer ..."}`, SettingSecrets, h.Value))
		}
		if h.Name == "" {
			delete(headers, "")
		}
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			if wrong := headerProblem(name, headers[name]); wrong != "" && problem == nil {
				problem = connectionFailure(fmt.Sprintf("connection %q: %s", c.ID, wrong), "correct the header in the flow, or the secret")
			}
			out.Headers[name] = headers[name]
			out.named = append(out.named, headers[name])
		}
	}
	if c.TLS == nil {
		return problem
	}
	for i, ref := range []string{c.TLS.CA, c.TLS.Cert, c.TLS.Key} {
		if ref != "" {
			*[]*string{&out.CAFile, &out.CertFile, &out.KeyFile}[i] = get(ref)
		}
	}
	return problem
}

// variable finds the references of [plan.Header.Secret].
var variable = regexp.MustCompile(`\$\{env\.([^}]+)\}`)

// fill replaces the worker's variables in headers, where they may be sent to the server's host.
func (t *Tools) fill(c plan.Connection, to *Connection) error {
	at := plan.ShortOrigin(c.URL)
	for _, h := range c.Headers {
		if !h.Secret {
			continue
		}
		var failed error
		value := variable.ReplaceAllStringFunc(h.Value, func(ref string) string {
			name := ref[len("${env.") : len(ref)-1]
			v, ok := t.settings.Variables[name]
			switch {
			case !ok || !v.boundTo(c.URL):
				failed = connectionFailure(fmt.Sprintf("connection %q: the header %s needs the variable %s, which may not go to %s", c.ID, h.Name, name, at),
					allowRemedy(fmt.Sprintf("%s: {%q: {hosts: [%q]}}", SettingVariables, name, at)))
			case v.Value == "":
				failed = connectionFailure(fmt.Sprintf("connection %q: the header %s needs the variable %s, which is not set", c.ID, h.Name, name),
					fmt.Sprintf("set %s or %s_FILE in the worker's environment", name, name))
			}
			return v.Value
		})
		if failed != nil {
			return failed
		}
		if problem := headerProblem(h.Name, value); problem != "" {
			return connectionFailure(fmt.Sprintf("connection %q: %s", c.ID, problem), "correct the header, or the variable")
		}
		to.Headers[h.Name] = value
	}
	return nil
}
