package agentspec

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// Kinds of places that a secret can have at a worker.
const (
	// placeSecret is one of the worker's secrets, for some hosts.
	placeSecret = iota
	// placeKey is the key of a provider of models, placeAuthFile its file of keys.
	placeKey
	placeAuthFile
	// placeNone is none: no setting has it.
	placeNone
)

// place says what kind of place the secret has, and for a provider's which one.
func (s *Secret) place() (kind int, provider string) {
	t := s.Component.Type
	switch {
	case slices.Contains(t.Is, "OciClientConfig"):
		return placeAuthFile, "oci"
	case strings.HasPrefix(t.Name, "Gemini"):
		provider = providers["GeminiConfig"]
	case t.Name == "LlmConfig" || slices.Contains(t.Is, "LlmConfig"):
		provider = providerOf(s.Component)
	default:
		return placeSecret, ""
	}
	if s.Field != "api_key" {
		return placeNone, provider
	}
	return placeKey, provider
}

// host is where the component of the secret sends its requests; "" where it does not say.
func (s *Secret) host() string {
	for _, field := range []string{"url", "agent_url"} {
		if v := s.Component.source.Get(field); v != nil && v.Kind == source.String {
			if u, err := url.Parse(v.Text); err == nil && u.Host != "" {
				return u.Host
			}
		}
	}
	return ""
}

// setting is where the worker's operator gives the secret: the very line, or the settings of
// the model's provider, which has the keys for it.
func (s *Secret) setting() string {
	kind, provider := s.place()
	switch kind {
	case placeAuthFile:
		return fmt.Sprintf("name the file in the worker's weft.yaml: providers: {%s: {auth_file: \"/path/of/it\"}}", provider)
	case placeKey:
		return fmt.Sprintf("give the key of the model's provider to the worker: in weft.yaml providers: {%s: {key_env: NAME}} says which variable has it, or as NAME_FILE which file", provider)
	case placeNone:
		return fmt.Sprintf("let the worker reach the model by a server that has it, in weft.yaml: providers: {%s: {base_url: \"URL\"}}", provider)
	}
	return fmt.Sprintf("set in the worker's weft.yaml: secrets: {%q: {value: \"${NAME}\", hosts: [%q]}}; NAME is a variable of the worker's environment, or NAME_FILE names a file", s.Ref, or(s.host(), "HOST"))
}

// lend hands the secrets that stand in the document to who asked for them. Two that would have
// one place at the worker, and one that has none, are errors.
func (b *builder) lend(secrets []Secret) {
	if b.host.Lend == nil {
		return
	}
	taken := map[string]string{}
	for i := range secrets {
		s := &secrets[i]
		if s.Inline == "" {
			continue
		}
		l := source.Lent{Ref: s.Ref, Value: s.Inline}
		kind, provider := s.place()
		where := "the secret " + source.Quote(s.Ref)
		switch kind {
		case placeKey:
			l.Provider, l.Setting = provider, source.LentKey
			where = "the key of the provider " + provider
		case placeAuthFile:
			l.Provider, l.Setting, l.File = provider, source.LentAuthFile, true
			where = "the file of keys of the provider " + provider
		case placeNone:
			b.Errorf(s.At, source.CodeSecretInline, s.setting(), "%s of %s cannot be given to a worker", s.Field, s.Component)
			continue
		default:
			l.File = strings.HasSuffix(s.Field, "_file")
			if h := s.host(); h != "" {
				l.Hosts = []string{h}
			}
		}
		before, had := taken[where]
		if had && before != s.Inline {
			b.Errorf(s.At, source.CodeSecretInline, s.advice(), "%s is written twice, and with another value each time", where)
			continue
		}
		taken[where] = s.Inline
		if !had {
			b.host.Lend(l)
		}
	}
}

// advice is what to write in the secret's place.
func (s *Secret) advice() string {
	return fmt.Sprintf(`write {"$component_ref": %q} in the document, and %s`, s.Ref, s.setting())
}
