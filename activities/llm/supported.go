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

// checkSupported rejects parameters and files that the model does not support, and invalid schemas.
func (p *provider) checkSupported(call *Call) error {
	var unsupported []string
	for _, name := range slices.Sorted(maps.Keys(call.Parameters())) {
		if !slices.Contains(commonParams, name) && !slices.Contains(p.row.Params, name) {
			unsupported = append(unsupported, name)
		}
	}
	if len(unsupported) > 0 {
		return failf(contract.ClassBadRequest, "", "model %q: %s does not support %s; remove it, or choose a model of another provider", p.Ref(), p.row.Name, strings.Join(unsupported, ", "))
	}
	if kind := p.unsupportedMedia(call); kind != "" {
		return failf(contract.ClassBadRequest, "choose a model of another kind of provider: "+kindsAccepting(kind), "model %q does not support %s", p.Ref(), wire.Plural(kind))
	}
	if len(call.Schema) > 0 && !json.Valid(call.Schema) {
		return failf(contract.ClassBadRequest, "", "model %q: the schema of the answer is not JSON", p.Ref())
	}
	return nil
}

// unsupportedMedia returns the kind of a file in the run's input that the model does not support, or "". Files in tool
// results are omitted instead, as are all files if the provider's setting images is false.
func (p *provider) unsupportedMedia(call *Call) string {
	for i := range call.Messages {
		m := &call.Messages[i]
		for k := range m.Media {
			if kind := m.Media[k].Kind(); m.Role == contract.RoleUser && m.Name == "" && !p.NoImages && !p.Accepts(kind) {
				return kind
			}
		}
	}
	return ""
}

// kindsAccepting returns the kinds of providers that have models for files of a kind.
func kindsAccepting(kind string) string {
	var out []string
	for i := range Providers {
		if s := &Providers[i].Server; kind == contract.KindDocument && s.Documents != nil || kind == contract.KindAudio && s.Audio != nil {
			out = append(out, Providers[i].Name)
		}
	}
	return strings.Join(out, ", ")
}

// schemaRejections are texts, in lower case, of errors of servers that do not support a schema. The prompt contains the
// schema too, and the caller validates the answer.
var schemaRejections = []string{"schema", "response_format", "responseformat", "response_mime_type", "output_config", "output_format", "structured", "grammar"}

// dropRejected returns a copy of the call without the part that the server rejected: the answer's format, or reasoning
// that is sent back. It returns nil for any other error. The copy has another idempotency key.
func (x *exchange) dropRejected(err error) *Call {
	var f *contract.Failure
	if !errors.As(err, &f) || f.Class != contract.ClassBadRequest {
		return nil
	}
	out, reason, suffix := *x.call, strings.ToLower(f.Text), ""
	switch {
	case len(out.Schema) > 0 && containsAny(reason, schemaRejections):
		out.Schema, out.JSON, suffix = nil, false, "/unbound"
	case x.Reasoning == wire.SameField && strings.Contains(reason, "reasoning"):
		out.Messages, suffix = slices.Clone(out.Messages), "/unthought"
		for i := range out.Messages {
			out.Messages[i].Reasoning = ""
		}
	default:
		return nil
	}
	if out.IdempotencyKey != "" {
		out.IdempotencyKey += suffix
	}
	return &out
}
