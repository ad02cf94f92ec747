package continuum

import (
	"encoding/json"
	"strings"

	"weft/specadapter/source"
	"weft/specadapter/structured"
)

// responseFormat is what a graph asks of its exit nodes; the zero value is Markdown.
type responseFormat struct {
	json   bool
	schema json.RawMessage
	rules  string
}

// ask appends the demand for the format to a message.
func (f *responseFormat) ask(text string) string {
	if len(f.schema) > 0 {
		text = structured.Enrich(text, f.schema)
	} else {
		text = structured.EnrichAny(text)
	}
	return structured.Rules(text, f.rules)
}

// bad reports a wrong response_format (V8).
func (g *graph) bad(v *source.Value, help, field, want string) {
	g.Errorf(v.Pos, "V8", help, "%s of %s is %s, want %s", field, g.object.Name, v.Describe(), want)
}

func (g *graph) responseFormat() responseFormat {
	const shape = `use {"type": 1, "payload": null} for Markdown or {"type": 2, "payload": {...}} for JSON`
	v := g.object.Get("response_format")
	if v == nil {
		return responseFormat{}
	}
	if v.Kind != source.Object {
		g.bad(v, shape, "response_format", "an object")
		return responseFormat{}
	}
	where := g.object.Path + "response_format."
	o := g.adaptation.Fields(v, "response_format", where).Of(&formatShape)
	payload := o.Get("payload")
	if payload != nil && payload.Kind != source.Object {
		g.bad(payload, shape, "payload", "an object or null")
		payload = nil
	}
	kind := o.Get("type")
	if kind == nil {
		g.Errorf(v.Pos, "V8", shape, "the response_format of %s has no type", g.object.Name)
		return responseFormat{}
	}
	switch n, _ := kind.Int(); n {
	case 1:
		if payload != nil && payload.Kind == source.Object {
			g.Warnf(payload.Pos, CodeUnusedPayload, "use null or type 2", "the payload has no effect with type 1")
		}
		return responseFormat{}
	case 2:
		return g.blueprint(payload, where+"payload.")
	}
	g.bad(kind, shape, "type", "1 (Markdown) or 2 (Blueprint)")
	return responseFormat{}
}

// blueprint reads the payload of type 2.
func (g *graph) blueprint(payload *source.Value, where string) responseFormat {
	f := responseFormat{json: true}
	if payload == nil {
		return f
	}
	o := g.adaptation.Fields(payload, "payload", where).Of(&payloadShape)
	switch v := o.Get("format"); {
	case v == nil:
		g.expected(o, "format", `answers are JSON; set "format": "JSON"`)
	case v.Kind != source.String || !strings.EqualFold(strings.TrimSpace(v.Text), "json"):
		g.bad(v, `use "JSON", the only format`, "format", `"JSON"`)
	}
	if v := o.Get("rules"); v != nil && v.Kind == source.String {
		f.rules = v.Text
	} else if v != nil {
		g.bad(v, "use one string", "rules", "a string")
	}
	f.schema = g.outputSchema(o)
	return f
}

// outputSchema reads and compiles output_schema. The schema {} counts as none.
func (g *graph) outputSchema(o *source.Fields) json.RawMessage {
	v := o.Get("output_schema")
	if v == nil {
		return nil
	}
	if v.Kind != source.Object {
		g.bad(v, "use a JSON Schema", "output_schema", "an object")
		return v.JSON()
	}
	g.CheckSchema(v, "V8", "output_schema of "+g.object.Name)
	if len(v.Members) == 0 {
		return nil
	}
	return v.JSON()
}
