package llm

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// supported refuses parameters that would otherwise be dropped silently, and an invalid schema.
func (p *provider) supported(call *Call) error {
	var here []string
	for _, name := range slices.Sorted(maps.Keys(call.Parameters())) {
		if !slices.Contains(alwaysTaken, name) && !slices.Contains(p.row.Params, name) {
			here = append(here, name)
		}
	}
	if len(here) > 0 {
		return failf(contract.ClassBadRequest, "", "model %q: %s takes no %s; leave it out, or choose a model of another provider", p.Ref(), p.row.Name, strings.Join(here, ", "))
	}
	if kind := p.refused(call); kind != "" {
		return failf(contract.ClassBadRequest, "choose a model that takes it: "+takers(kind), "model %q: it takes no %s", p.Ref(), wire.Plural(kind))
	}
	if len(call.Schema) > 0 && !json.Valid(call.Schema) {
		return failf(contract.ClassBadRequest, "", "model %q: the schema of the answer is not JSON", p.Ref())
	}
	return nil
}

// refused is the kind of a file that a run was given and that the model does not take. Files of tools' results are left
// out instead, and so is what a provider is not sent by its setting images.
func (p *provider) refused(call *Call) string {
	for i := range call.Messages {
		m := &call.Messages[i]
		for k := range m.Media {
			if kind := m.Media[k].Kind(); m.Role == contract.RoleUser && m.Name == "" && !p.NoImages && !p.Takes(kind) {
				return kind
			}
		}
	}
	return ""
}

// takers lists the kinds of providers that have models for files of a kind.
func takers(kind string) string {
	var out []string
	for i := range Providers {
		if s := &Providers[i].Server; kind == contract.KindDocument && s.Documents != nil || kind == contract.KindAudio && s.Audio != nil {
			out = append(out, Providers[i].Name)
		}
	}
	return strings.Join(out, ", ")
}

// Servers support different parts of JSON Schema. The prompt contains the schema too, and the caller checks
// the answer.

// schemaTexts are words by which servers refuse a schema, in lower case.
var schemaTexts = []string{"schema", "response_format", "responseformat", "response_mime_type", "output_config", "output_format", "structured", "grammar"}

// without is the call without what its request was refused for: the answer's format, or reasoning that a server takes back or
// not; nil for any other error. It is another request, with another idempotency key.
func (x *exchange) without(err error) *Call {
	var f *contract.Failure
	if !errors.As(err, &f) || f.Class != contract.ClassBadRequest {
		return nil
	}
	out, why, key := *x.call, strings.ToLower(f.Text), ""
	switch {
	case len(out.Schema) > 0 && containsAny(why, schemaTexts):
		out.Schema, out.JSON, key = nil, false, "/unbound"
	case x.Reasoning == wire.AsItCame && strings.Contains(why, "reasoning"):
		out.Messages, key = slices.Clone(out.Messages), "/unthought"
		for i := range out.Messages {
			out.Messages[i].Reasoning = ""
		}
	default:
		return nil
	}
	if out.IdempotencyKey != "" {
		out.IdempotencyKey += key
	}
	return &out
}
