package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// deepSchema is a tool's schema with what converters lose.
const deepSchema = `{"$defs":{"p":{"pattern":"^a","type":"string"}},"additionalProperties":false,"properties":{"mode":{"enum":["a","b",3]},` +
	`"n":{"maximum":7.5,"minimum":-1,"type":["integer","null"]},"u":{"anyOf":[{"$ref":"#/$defs/p"},{"items":{"type":"number"},"type":"array"}]}},"required":["mode"],"type":"object"}`

func conformToolSchemas(t *testing.T, b bench) string {
	e, m := b.at(t, says("ok"), nil)
	list := []llms.Tool{
		{Type: "function", Function: &llms.FunctionDefinition{Name: "deep", Description: "says <b> & more", Parameters: json.RawMessage(deepSchema)}},
		{Type: "function", Function: &llms.FunctionDefinition{Name: "bare"}},
	}
	e.one(t, m, &Call{}, transcriptOf("", user("go")), llms.WithTools(list))
	got := e.got(t)
	if len(got.tools) != 2 || got.tools[0].name != "deep" || got.tools[0].description != "says <b> & more" || got.tools[1].name != "bare" {
		t.Fatalf("tools %+v", got.tools)
	}
	same(t, "schema", got.tools[0].schema, json.RawMessage(deepSchema))
	return "yes"
}

func conformChoice(t *testing.T, b bench) string {
	e, m := b.at(t, says("ok"), nil)
	in := transcriptOf("", user("go"))
	for _, tc := range []struct {
		choice any
		want   string
	}{
		{nil, ""}, {"auto", "auto"}, {"none", "none"}, {"required", "required"},
		{llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: "put"}}, "tool put"},
	} {
		opts := []llms.CallOption{llms.WithTools(tools())}
		if tc.choice != nil {
			opts = append(opts, llms.WithToolChoice(tc.choice))
		}
		if !b.row.ToolChoice && tc.want != "" && tc.want != "none" {
			continue
		}
		if _, silent := b.vendor.(interface{ noAuto() }); silent && tc.want == "auto" {
			tc.want = ""
		}
		e.one(t, m, &Call{}, in, opts...)
		got := e.got(t)
		_, leaves := b.vendor.(interface{ noNone() })
		switch {
		case (!b.row.ToolChoice || leaves) && tc.want == "none":
			same(t, "tools where none may be called", len(got.tools), 0)
		default:
			same(t, fmt.Sprintf("choice for %v", tc.choice), got.choice, tc.want)
		}
	}
	if !b.row.ToolChoice {
		return "none only"
	}
	return "yes"
}

func conformSchema(t *testing.T, b bench) string {
	const schema = `{"additionalProperties":false,"properties":{"kind":{"enum":["bug","idea"]},"note":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["kind","note"],"type":"object"}`
	e, m := b.at(t, says(`{"kind":"bug","note":null}`), nil)
	m.Name = b.schemaModel()
	in := transcriptOf("Answer in JSON.", user("go"))
	a := e.one(t, m, &Call{Request: wire.Request{Schema: json.RawMessage(schema), JSON: true}}, in)
	same(t, "answer", a.Message.Text, `{"kind":"bug","note":null}`)
	got := e.got(t)
	// Beside tools the request must be one that the server takes.
	e.one(t, m, &Call{Request: wire.Request{Schema: json.RawMessage(schema), JSON: true}}, in, llms.WithTools(tools()))
	e.got(t)
	conformAnySchema(t, b)
	if b.row.Schema {
		same(t, "schema", got.schema, json.RawMessage(schema))
		same(t, "strict", got.strict, b.row.StrictSchema)
		return "yes"
	}
	if got.schema != nil {
		t.Errorf("a schema was sent: %v", got.schema)
	}
	if b.row.JSON {
		same(t, "JSON mode", got.json, true)
		return "JSON mode"
	}
	return "-"
}

// conformAnySchema asks for what servers take in part or not at all: the answer comes all the same.
func conformAnySchema(t *testing.T, b bench) {
	in := transcriptOf("Answer in JSON.", user("go"))
	for name, schema := range map[string]string{
		"a list": `{"type":"array","items":{"type":"string"}}`, "anything with a rule": `{"minLength":3}`, "no type": `{"properties":{"a":{}}}`,
		"an open object": `{"type":"object","properties":{"a":{"type":"string"}}}`,
		"an option":      `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}`,
		"a pattern":      `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"string","pattern":"^(?!x)"}}}`,
	} {
		e, m := b.at(t, says(`["a"]`), nil)
		m.Name = b.schemaModel()
		same(t, name, e.one(t, m, &Call{Request: wire.Request{Schema: json.RawMessage(schema), JSON: true}}, in).Message.Text, `["a"]`)
		got := e.got(t)
		if got.strict {
			t.Errorf("%s was sent as strict", name)
		}
		if got.json && got.schema == nil && !strings.Contains(schema, "properties") {
			t.Errorf("%s: asked in the JSON mode, which writes objects alone", name)
		}
	}

	// A server that knows less than was thought.
	const closed = `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"string"}}}`
	var keys []string
	refuse := func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) == 1 && b.row.Schema {
			answer(400, b.vendor.cause(400, faultPlain, "The schema has too many states for serving."))(w, r)
			return
		}
		answer(200, b.vendor.whole(says(`{"a":"b"}`)))(w, r)
	}
	e, m := b.at(t, said{}, refuse)
	m.Name = b.schemaModel()
	same(t, "the answer without a schema", e.one(t, m, &Call{Request: wire.Request{Schema: json.RawMessage(closed), JSON: true}, IdempotencyKey: "k"}, in).Message.Text, `{"a":"b"}`)
	if !b.row.Schema {
		same(t, "requests", len(keys), 1)
		return
	}
	if e.got(t).schema != nil || len(keys) != 2 || keys[0] == keys[1] {
		t.Errorf("after the refusal: schema %v, keys %q", e.got(t).schema, keys)
	}

	// What is wrong for another reason is not asked twice.
	keys = nil
	e, m = b.at(t, said{}, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, "")
		answer(400, b.vendor.cause(400, faultPlain, "no such parameter"))(w, r)
	})
	m.Name = b.schemaModel()
	_, err := generate(t.Context(), m, callOf(&Call{Request: wire.Request{Schema: json.RawMessage(closed)}}, in, nil))
	if f := failureOf(t, err); f.Class != contract.ClassBadRequest || len(keys) != 1 {
		t.Errorf("another refusal: %v, requests %d", err, len(keys))
	}
	e.got(t)
}

// schemaModel is a model's name that takes a schema.
func (b bench) schemaModel() string {
	if b.row.Protocol == wire.Claude {
		return "claude-opus-4-7"
	}
	return cmp.Or(b.model, "m-1")
}

func conformImages(t *testing.T, b bench) string {
	e, m := b.at(t, says("a cat"), nil)
	e.one(t, m, &Call{}, transcriptOf("", contract.Message{Role: "user", Text: "look", Media: []contract.Media{
		{MediaType: "image/png", Data: "cG5n"}, {MediaType: "image/gif", Data: "Z2lm"}}}))
	turn := e.got(t).turns[0]
	same(t, "text", turn.text, "look")
	same(t, "images", turn.images, []string{"image/png cG5n", "image/gif Z2lm"})
	return "yes"
}

// conformResultImages has tools answer with images: two results of one turn, one with an image
// and one with two.
func conformResultImages(t *testing.T, b bench) string {
	images := []contract.Media{{MediaType: "image/png", Data: "cG5n"}, {MediaType: "image/gif", Data: "Z2lm"}, {MediaType: "image/webp", Data: "d2Vi"}}
	calls := []contract.ToolCall{{ID: "call_1", Name: "get", Arguments: "{}"}, {ID: "call_2", Name: "put", Arguments: "{}"}}
	conversation := func(t *testing.T, signed *contract.Message) wire.Request {
		return transcriptOf("", user("go"), *signed,
			contract.Message{Role: "tool", CallID: "call_1", Name: "get", Text: "a cat", Media: images[:1]},
			contract.Message{Role: "tool", CallID: "call_2", Name: "put", Text: "two dogs", Error: true, Media: images[1:]}, user("and now?"))
	}
	e, m := b.at(t, said{calls: calls, stop: "tool_calls"}, nil)
	a := e.one(t, m, &Call{}, transcriptOf("", user("go")), llms.WithTools(tools()))
	e.one(t, m, &Call{}, conversation(t, &a.Message), llms.WithTools(tools()))
	results, shown, text := seenResults(e.got(t))
	if len(results) != 2 || results[0].text != "a cat" || results[1].text != "two dogs" || !strings.HasSuffix(text, "and now?") {
		t.Fatalf("results %+v, then %q", results, text)
	}
	want := []string{"image/png cG5n", "image/gif Z2lm", "image/webp d2Vi"}
	in := "in a message after them"
	if b.row.ResultImages {
		in, shown = "yes", append(append(shown, results[0].images...), results[1].images...)
	} else if !strings.Contains(text, "The images from the result of get") || !strings.Contains(text, "The images from the result of put") {
		t.Errorf("the tools of the images are not named: %q", text)
	}
	same(t, "images", shown, want)

	// A provider whose models know text alone is told so, and sent none.
	m.NoImages = true
	e.one(t, m, &Call{}, conversation(t, &a.Message), llms.WithTools(tools()))
	results, shown, _ = seenResults(e.got(t))
	if len(shown) > 0 || len(results) != 2 || len(results[0].images)+len(results[1].images) > 0 || !strings.Contains(results[0].text, "a cat") || !strings.Contains(results[0].text, "(this model does not support images)") {
		t.Errorf("without images: %+v, %v", results, shown)
	}
	e.one(t, m, &Call{}, transcriptOf("", contract.Message{Role: "user", Text: "look", Media: images}))
	if turn := e.got(t).turns[0]; len(turn.images) > 0 || turn.text != "look\n"+"(this model does not support images)" {
		t.Errorf("without images: %+v", turn)
	}
	return in
}

// seenResults are all results of a request, the images that users show and what they say behind
// the first message.
func seenResults(got *seen) (results []seenResult, images []string, text string) {
	for _, turn := range got.turns[1:] {
		results, images = append(results, turn.results...), append(images, turn.images...)
		if turn.role == "user" {
			text += turn.text
		}
	}
	return results, images, text
}

func conformParameters(t *testing.T, b bench) string {
	e, m := b.at(t, says("ok"), nil)
	m.Name = b.samplingModel()
	in := transcriptOf("", user("go"))
	e.one(t, m, &Call{}, in)
	if got := e.got(t); got.temperature != nil || got.topP != nil || got.seed != nil || got.stop != nil {
		t.Errorf("unset parameters were sent: %+v", got)
	}
	e.one(t, m, &Call{}, in, llms.WithTemperature(0), llms.WithMaxTokens(99))
	got := e.got(t)
	same(t, "temperature", got.temperature, 0)
	same(t, "max_tokens", got.maxTokens, 99)
	if _, knows := b.vendor.(interface{ noStop() }); !knows {
		e.one(t, m, &Call{}, in, llms.WithStopWords([]string{"END"}))
		same(t, "stop", e.got(t).stop, []string{"END"})
	}
	e.one(t, m, &Call{}, in, llms.WithTopP(0.25))
	same(t, "top_p", e.got(t).topP, 0.25)
	effort := slices.Contains(b.row.Params, paramEffort)
	_, err := generate(t.Context(), m, callOf(&Call{Request: wire.Request{Effort: "high"}}, in, nil, llms.WithMaxTokens(40_000)))
	if effort {
		if err != nil {
			t.Errorf("reasoning_effort: %v", err)
		} else if e.got(t).effort == "" {
			t.Error("reasoning_effort was not sent")
		}
	} else if f := failureOf(t, err); f.Class != contract.ClassBadRequest || !strings.Contains(f.Text, "reasoning_effort") {
		t.Errorf("reasoning_effort: %v", err)
	}
	return "yes"
}

// samplingModel is a model's name that takes sampling parameters.
func (b bench) samplingModel() string {
	if b.row.Protocol == wire.Claude {
		return "claude-sonnet-4-5"
	}
	return cmp.Or(b.model, "m-1")
}

func conformSeed(t *testing.T, b bench) string {
	e, m := b.at(t, says("ok"), nil)
	in := transcriptOf("", user("go"))
	if slices.Contains(b.row.Params, paramSeed) {
		e.one(t, m, &Call{}, in, llms.WithSeed(0))
		same(t, "seed", e.got(t).seed, 0)
		return "yes"
	}
	_, err := generate(t.Context(), m, callOf(&Call{}, in, nil, llms.WithSeed(7)))
	f := failureOf(t, err)
	same(t, "class", f.Class, contract.ClassBadRequest)
	mentions(t, f.Text, "does not support seed")
	return "refused"
}
