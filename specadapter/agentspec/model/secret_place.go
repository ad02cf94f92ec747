package model

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// Kinds of places that a secret can have at a worker.
const (
	// PlaceSecret is one of the worker's secrets, for some hosts.
	PlaceSecret = iota
	// PlaceKey is the key of a provider of models, PlaceAuthFile its file of keys.
	PlaceKey
	PlaceAuthFile
	// PlaceNone is none: no setting has it.
	PlaceNone
)

// Place says what kind of place the secret has, and for a provider's which one.
func (s *Secret) Place() (kind int, provider string) {
	t := s.Component.Type
	switch {
	case slices.Contains(t.Is, "OciClientConfig"):
		return PlaceAuthFile, "oci"
	case strings.HasPrefix(t.Name, "Gemini"):
		provider = providers["GeminiConfig"]
	case t.Name == "LlmConfig" || slices.Contains(t.Is, "LlmConfig"):
		provider = ProviderOf(s.Component)
	default:
		return PlaceSecret, ""
	}
	if s.Field != "api_key" {
		return PlaceNone, provider
	}
	return PlaceKey, provider
}

// Host is where the component of the secret sends its requests; "" where it does not say.
func (s *Secret) Host() string {
	for _, field := range []string{"url", "agent_url"} {
		if v := s.Component.source.Get(field); v != nil && v.Kind == source.String {
			if u, err := url.Parse(v.Text); err == nil && u.Host != "" {
				return u.Host
			}
		}
	}
	return ""
}

// Setting is where the worker's operator gives the secret: the very line, or the settings of
// the model's provider, which has the keys for it.
func (s *Secret) Setting() string {
	kind, provider := s.Place()
	switch kind {
	case PlaceAuthFile:
		return fmt.Sprintf("name the file in the worker's weft.yaml: providers: {%s: {auth_file: \"/path/of/it\"}}", provider)
	case PlaceKey:
		return fmt.Sprintf("give the key of the model's provider to the worker: in weft.yaml providers: {%s: {key_env: NAME}} says which variable has it, or as NAME_FILE which file", provider)
	case PlaceNone:
		return fmt.Sprintf("set a server that has it in the worker's weft.yaml: providers: {%s: {base_url: \"URL\"}}", provider)
	}
	return fmt.Sprintf("set in the worker's weft.yaml: secrets: {%q: {value: \"${NAME}\", hosts: [%q]}}; NAME is a variable of the worker's environment, or NAME_FILE names a file", s.Ref, cmp.Or(s.Host(), "HOST"))
}

// Advice is what to write in the secret's place.
func (s *Secret) Advice() string {
	return fmt.Sprintf(`write {"$component_ref": %q} in the document, and %s`, s.Ref, s.Setting())
}

// providers are the kinds of the worker's providers that stand for configurations of models.
var providers = map[string]string{"OpenAiCompatibleConfig": "compatible", "VllmConfig": "vllm", "OllamaConfig": "ollama",
	"OpenAiConfig": "openai", "OciGenAiConfig": "oci", "GeminiConfig": "google"}

// ProviderOf is the kind of the worker's provider that stands for a configuration of a model.
func ProviderOf(c *Component) string {
	return cmp.Or(providers[c.Type.Name], cmp.Or(strings.ToLower(c.Text("api_provider")), cmp.Or(strings.ToLower(c.Text("provider")), "compatible")))
}
