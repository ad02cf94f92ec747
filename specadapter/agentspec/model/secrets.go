package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// Secret is a value that a document refers to and the worker must provide.
type Secret struct {
	// Ref is the reference, by convention COMPONENT_ID.FIELD.
	Ref string
	// Component and Field are the component and field of the value. Header is set if the field
	// is an object of headers and the value is one of them.
	Component *Component
	Field     string
	Header    string
	// At is the position of the reference.
	At source.Pos
	// Inline is the secret itself; empty without [Options.InlineSecrets]. It must not appear in
	// a plan or a log.
	Inline string
}

// secret reads a sensitive field: a reference or an object of references.
func (l *loader) secret(s *scope, c *Component, spec *catalog.FieldSpec, f *Field, v *source.Value) bool {
	sec := Secret{Ref: cmp.Or(c.ID, c.Name) + "." + spec.Name, Component: c, Field: spec.Name}
	if spec.Kind != catalog.Object || refOf(v) != nil {
		return l.oneSecret(s, f, sec, v, spec)
	}
	if !l.sensitiveKind(v, source.Object, spec.Name+" of "+c.Type.Name) {
		return false
	}
	ok := true
	for _, m := range v.Members {
		one := sec
		one.Ref, one.Header = sec.Ref+"."+m.Key, m.Key
		before := len(f.Secrets)
		ok = l.oneSecret(s, f, one, m.Value, &catalog.FieldSpec{Name: spec.Name, Kind: catalog.Text}) && ok
		if len(f.Secrets) > before {
			f.Keys = append(f.Keys, m.Key)
		}
	}
	return ok
}

// oneSecret reads a reference to a secret, or reports an inline secret.
func (l *loader) oneSecret(s *scope, f *Field, sec Secret, v *source.Value, spec *catalog.FieldSpec) bool {
	sec.At = v.Pos
	what := spec.Name + " of " + sec.Component.Type.Name
	for hops := 0; refOf(v) != nil; hops++ {
		ref := refOf(v)
		if !l.sensitiveKind(ref, source.String, "the reference in "+what) {
			return false
		}
		sec.Ref = ref.Text
		d := l.lookup(s, ref.Text)
		if d == nil || hops > MaxNesting {
			l.addSecret(f, sec)
			return true
		}
		d.used = true
		v, s = d.value, d.scope
	}
	if spec.Kind != catalog.Any && !l.sensitiveKind(v, kindOf[spec.Kind], what) {
		return false
	}
	if v.Kind == source.String && v.Text == "" || v.Kind == source.Null {
		return true
	}
	text := "%s is in the document; anyone who can read the document or a run's history can read it"
	help := sec.Advice()
	severity := source.Error
	if l.o.InlineSecrets {
		severity = source.Warning
		text = "%s is in the document; anyone who can read the document can read it, and it is passed to the worker of -dev"
		sec.Inline = v.Text
		if v.Kind != source.String {
			sec.Inline = string(v.JSON())
		}
	}
	l.Report(severity.At(v.Pos, source.CodeSecretInline, help, text, what))
	l.addSecret(f, sec)
	return true
}

// sensitiveKind checks the kind of a value without showing the value in a message.
func (l *loader) sensitiveKind(v *source.Value, want source.Kind, what string) bool {
	if v.Kind == want || v.Kind == source.Null {
		return true
	}
	l.Errorf(v.Pos, "field-type", source.TypeHelp[want], "%s is %s, expected %s", what, v.Kind, want)
	return false
}

func (l *loader) addSecret(f *Field, sec Secret) {
	f.Secrets = append(f.Secrets, sec.Ref)
	l.doc.Secrets = append(l.doc.Secrets, sec)
}

// Place returns the model provider that the secret belongs to and the setting that it is, or "". A secret in the worker's setting
// secrets belongs to no provider.
func (s *Secret) Place() (provider, setting string) {
	t := s.Component.Type
	switch {
	case slices.Contains(t.Is, "OciClientConfig"):
		return "oci", source.SettingAuthFile
	case strings.HasPrefix(t.Name, "Gemini"):
		provider = providers["GeminiConfig"]
	case t.Name == "LlmConfig" || slices.Contains(t.Is, "LlmConfig"):
		provider = ProviderOf(s.Component)
	}
	if provider != "" && s.Field == "api_key" {
		setting = source.SettingKey
	}
	return provider, setting
}

// Host returns the host to which the secret's component sends requests, in the form of the settings, or "" if it has none.
func (s *Secret) Host() string {
	for _, field := range []string{"url", "agent_url"} {
		if v := s.Component.source.Get(field); v != nil && v.Kind == source.String {
			if h := plan.ShortOrigin(v.Text); h != "" {
				return h
			}
		}
	}
	return ""
}

// Setting describes where the worker's operator configures the secret: in the setting secrets or in the
// settings of the model provider.
func (s *Secret) Setting() string {
	provider, setting := s.Place()
	switch {
	case setting == source.SettingAuthFile:
		return fmt.Sprintf("set the file in the worker's weft.yaml: providers: {%s: {auth_file: \"/path/of/it\"}}", provider)
	case setting == source.SettingKey:
		return fmt.Sprintf("set the provider's key on the worker: in weft.yaml providers: {%s: {key_env: NAME}} names the variable (NAME_FILE: a file) that has it", provider)
	case provider != "":
		return fmt.Sprintf("set the server in the worker's weft.yaml: providers: {%s: {base_url: \"URL\"}}", provider)
	}
	return fmt.Sprintf("set in the worker's weft.yaml: secrets: {%q: {value: \"${NAME}\", hosts: [%q]}}; NAME is a variable of the worker's environment, or NAME_FILE names a file", s.Ref, cmp.Or(s.Host(), "HOST"))
}

// Advice describes what to use instead of an inline secret.
func (s *Secret) Advice() string {
	return fmt.Sprintf(`use {"$component_ref": %q} in the document, and %s`, s.Ref, s.Setting())
}

// providers maps model configurations to the worker's providers.
var providers = map[string]string{"OpenAiCompatibleConfig": "compatible", "VllmConfig": "vllm", "OllamaConfig": "ollama",
	"OpenAiConfig": "openai", "OciGenAiConfig": "oci", "GeminiConfig": "google"}

// ProviderOf returns the worker's provider for a model configuration.
func ProviderOf(c *Component) string {
	return cmp.Or(providers[c.Type.Name], cmp.Or(strings.ToLower(c.Text("api_provider")), cmp.Or(strings.ToLower(c.Text("provider")), "compatible")))
}
