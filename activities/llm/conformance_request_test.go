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

// deepSchema is a tool's schema with keywords that conversions tend to lose.
const deepSchema = `{"$defs":{"p":{"pattern":"^a","type":"string"}},"additionalProperties":false,"properties":{"mode":{"enum":["a","b",3]},` +
	`"n":{"maximum":7.5,"minimum":-1,"type":["integer","null"]},"u":{"anyOf":[{"$ref":"#/$defs/p"},{"items":{"type":"number"},"type":"array"}]}},"required":["mode"],"type":"object"}`

func conformToolSchemas(t *testing.T, b providerCase) string {
	e, m := b.start(t, textAnswer("ok"), nil)
	list := []llms.Tool{
		{Type: "function", Function: &llms.FunctionDefinition{Name: "deep", Description: "says <b> & more", Parameters: json.RawMessage(deepSchema)}},
		{Type: "function", Function: &llms.FunctionDefinition{Name: "bare"}},
	}
	e.generate(t, m, &Call{}, transcriptOf("", user("go")), llms.WithTools(list))
	got := e.lastRequest(t)
	if len(got.tools) != 2 || got.tools[0].name != "deep" || got.tools[0].description != "says <b> & more" || got.tools[1].name != "bare" {
		t.Fatalf("tools %+v", got.tools)
	}
	checkEqual(t, "schema", got.tools[0].schema, json.RawMessage(deepSchema))
	return "yes"
}

func conformChoice(t *testing.T, b providerCase) string {
	e, m := b.start(t, textAnswer("ok"), nil)
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
		if _, lacksAuto := b.vendor.(interface{ noAuto() }); lacksAuto && tc.want == "auto" {
			tc.want = ""
		}
		e.generate(t, m, &Call{}, in, opts...)
		got := e.lastRequest(t)
		_, lacksNone := b.vendor.(interface{ noNone() })
		switch {
		case (!b.row.ToolChoice || lacksNone) && tc.want == "none":
			checkEqual(t, "tools for tool_choice none", len(got.tools), 0)
		default:
			checkEqual(t, fmt.Sprintf("choice for %v", tc.choice), got.choice, tc.want)
		}
	}
	if !b.row.ToolChoice {
		return "none only"
	}
	return "yes"
}

func conformSchema(t *testing.T, b providerCase) string {
	const schema = `{"additionalProperties":false,"properties":{"kind":{"enum":["bug","idea"]},"note":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["kind","note"],"type":"object"}`
	e, m := b.start(t, textAnswer(`{"kind":"bug","note":null}`), nil)
	m.Name = b.schemaModel()
	in := transcriptOf("Answer in JSON.", user("go"))
	a := e.generate(t, m, &Call{Request: wire.Request{Schema: json.RawMessage(schema), JSON: true}}, in)
	checkEqual(t, "answer", a.Message.Text, `{"kind":"bug","note":null}`)
	got := e.lastRequest(t)
	// With tools, too, the server must accept the request.
	e.generate(t, m, &Call{Request: wire.Request{Schema: json.RawMessage(schema), JSON: true}}, in, llms.WithTools(tools()))
	e.lastRequest(t)
	conformAnySchema(t, b)
	if b.row.Schema {
		checkEqual(t, "schema", got.schema, json.RawMessage(schema))
		checkEqual(t, "strict", got.strict, b.row.StrictSchema)
		return "yes"
	}
	if got.schema != nil {
		t.Errorf("a schema was sent: %v", got.schema)
	}
	if b.row.JSON {
		checkEqual(t, "JSON mode", got.json, true)
		return "JSON mode"
	}
	return "-"
}

// conformAnySchema checks that calls succeed with schemas that servers support partly or not at all.
func conformAnySchema(t *testing.T, b providerCase) {
	in := transcriptOf("Answer in JSON.", user("go"))
	for name, schema := range map[string]string{
		"a list": `{"type":"array","items":{"type":"string"}}`, "only a keyword": `{"minLength":3}`, "no type": `{"properties":{"a":{}}}`,
		"an open object":    `{"type":"object","properties":{"a":{"type":"string"}}}`,
		"optional property": `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}`,
		"a pattern":         `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"string","pattern":"^(?!x)"}}}`,
	} {
		e, m := b.start(t, textAnswer(`["a"]`), nil)
		m.Name = b.schemaModel()
		checkEqual(t, name, e.generate(t, m, &Call{Request: wire.Request{Schema: json.RawMessage(schema), JSON: true}}, in).Message.Text, `["a"]`)
		got := e.lastRequest(t)
		if got.strict {
			t.Errorf("%s was sent as strict", name)
		}
		if got.json && got.schema == nil && !strings.Contains(schema, "properties") {
			t.Errorf("%s: requested in JSON mode, which returns only objects", name)
		}
	}

	// The server rejects the schema: the call is repeated without it.
	const closed = `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"string"}}}`
	var keys []string
	refuse := func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) == 1 && b.row.Schema {
			answer(400, b.vendor.errorBody(400, faultPlain, "The schema has too many states for serving."))(w, r)
			return
		}
		answer(200, b.vendor.unary(textAnswer(`{"a":"b"}`)))(w, r)
	}
	e, m := b.start(t, fakeAnswer{}, refuse)
	m.Name = b.schemaModel()
	checkEqual(t, "answer without a schema", e.generate(t, m, &Call{Request: wire.Request{Schema: json.RawMessage(closed), JSON: true}, IdempotencyKey: "k"}, in).Message.Text, `{"a":"b"}`)
	if !b.row.Schema {
		checkEqual(t, "requests", len(keys), 1)
		return
	}
	if e.lastRequest(t).schema != nil || len(keys) != 2 || keys[0] == keys[1] {
		t.Errorf("after the rejection: schema %v, keys %q", e.lastRequest(t).schema, keys)
	}

	// A request rejected for another reason is not repeated.
	keys = nil
	e, m = b.start(t, fakeAnswer{}, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, "")
		answer(400, b.vendor.errorBody(400, faultPlain, "no such parameter"))(w, r)
	})
	m.Name = b.schemaModel()
	_, err := generate(t.Context(), m, newCall(&Call{Request: wire.Request{Schema: json.RawMessage(closed)}}, in, nil))
	if f := failureOf(t, err); f.Class != contract.ClassBadRequest || len(keys) != 1 {
		t.Errorf("another rejection: %v, requests %d", err, len(keys))
	}
	e.lastRequest(t)
}

// schemaModel returns the name of a model that supports schemas.
func (b providerCase) schemaModel() string {
	if b.row.Protocol == wire.Claude {
		return "claude-opus-4-7"
	}
	return cmp.Or(b.model, "m-1")
}

func conformImages(t *testing.T, b providerCase) string {
	e, m := b.start(t, textAnswer("a cat"), nil)
	e.generate(t, m, &Call{}, transcriptOf("", contract.Message{Role: "user", Text: "look", Media: []contract.Media{
		{MediaType: "image/png", Data: "cG5n"}, {MediaType: "image/gif", Data: "Z2lm"}}}))
	turn := e.lastRequest(t).turns[0]
	checkEqual(t, "text", turn.text, "look")
	checkEqual(t, "images", turn.images, []string{"image/png cG5n", "image/gif Z2lm"})
	return "yes"
}

// conformResultImages checks images in tool results: two results of one turn, one with one image
// and one with two.
func conformResultImages(t *testing.T, b providerCase) string {
	images := []contract.Media{{MediaType: "image/png", Data: "cG5n"}, {MediaType: "image/gif", Data: "Z2lm"}, {MediaType: "image/webp", Data: "d2Vi"}}
	calls := []contract.ToolCall{{ID: "call_1", Name: "get", Arguments: "{}"}, {ID: "call_2", Name: "put", Arguments: "{}"}}
	conversation := func(t *testing.T, signed *contract.Message) wire.Request {
		return transcriptOf("", user("go"), *signed,
			contract.Message{Role: "tool", CallID: "call_1", Name: "get", Text: "a cat", Media: images[:1]},
			contract.Message{Role: "tool", CallID: "call_2", Name: "put", Text: "two dogs", Error: true, Media: images[1:]}, user("and now?"))
	}
	e, m := b.start(t, fakeAnswer{calls: calls, stop: "tool_calls"}, nil)
	a := e.generate(t, m, &Call{}, transcriptOf("", user("go")), llms.WithTools(tools()))
	e.generate(t, m, &Call{}, conversation(t, &a.Message), llms.WithTools(tools()))
	results, shown, text := toolResults(e.lastRequest(t))
	if len(results) != 2 || results[0].text != "a cat" || results[1].text != "two dogs" || !strings.HasSuffix(text, "and now?") {
		t.Fatalf("results %+v, then %q", results, text)
	}
	want := []string{"image/png cG5n", "image/gif Z2lm", "image/webp d2Vi"}
	in := "in a message after them"
	if b.row.ResultImages {
		in, shown = "yes", append(append(shown, results[0].images...), results[1].images...)
	} else if !strings.Contains(text, "The images from the result of get") || !strings.Contains(text, "The images from the result of put") {
		t.Errorf("the text does not name the tools of the images: %q", text)
	}
	checkEqual(t, "images", shown, want)

	// Without support for images, a note is sent in their place.
	m.NoImages = true
	e.generate(t, m, &Call{}, conversation(t, &a.Message), llms.WithTools(tools()))
	results, shown, _ = toolResults(e.lastRequest(t))
	if len(shown) > 0 || len(results) != 2 || len(results[0].images)+len(results[1].images) > 0 || !strings.Contains(results[0].text, "a cat") || !strings.Contains(results[0].text, "(this model does not support images)") {
		t.Errorf("without images: %+v, %v", results, shown)
	}
	e.generate(t, m, &Call{}, transcriptOf("", contract.Message{Role: "user", Text: "look", Media: images}))
	if turn := e.lastRequest(t).turns[0]; len(turn.images) > 0 || turn.text != "look\n"+"(this model does not support images)" {
		t.Errorf("without images: %+v", turn)
	}
	return in
}

// toolResults returns all tool results of a request, and the images and text of user messages
// after the first turn.
func toolResults(got *parsedRequest) (results []parsedResult, images []string, text string) {
	for _, turn := range got.turns[1:] {
		results, images = append(results, turn.results...), append(images, turn.images...)
		if turn.role == "user" {
			text += turn.text
		}
	}
	return results, images, text
}

func conformParameters(t *testing.T, b providerCase) string {
	e, m := b.start(t, textAnswer("ok"), nil)
	m.Name = b.samplingModel()
	in := transcriptOf("", user("go"))
	e.generate(t, m, &Call{}, in)
	if got := e.lastRequest(t); got.temperature != nil || got.topP != nil || got.seed != nil || got.stop != nil {
		t.Errorf("unset parameters were sent: %+v", got)
	}
	e.generate(t, m, &Call{}, in, llms.WithTemperature(0), llms.WithMaxTokens(99))
	got := e.lastRequest(t)
	checkEqual(t, "temperature", got.temperature, 0)
	checkEqual(t, "max_tokens", got.maxTokens, 99)
	if _, lacksStop := b.vendor.(interface{ noStop() }); !lacksStop {
		e.generate(t, m, &Call{}, in, llms.WithStopWords([]string{"END"}))
		checkEqual(t, "stop", e.lastRequest(t).stop, []string{"END"})
	}
	e.generate(t, m, &Call{}, in, llms.WithTopP(0.25))
	checkEqual(t, "top_p", e.lastRequest(t).topP, 0.25)
	effort := slices.Contains(b.row.Params, paramEffort)
	_, err := generate(t.Context(), m, newCall(&Call{Request: wire.Request{Effort: "high"}}, in, nil, llms.WithMaxTokens(40_000)))
	if effort {
		if err != nil {
			t.Errorf("reasoning_effort: %v", err)
		} else if e.lastRequest(t).effort == "" {
			t.Error("reasoning_effort was not sent")
		}
	} else if f := failureOf(t, err); f.Class != contract.ClassBadRequest || !strings.Contains(f.Text, "reasoning_effort") {
		t.Errorf("reasoning_effort: %v", err)
	}
	return "yes"
}

// samplingModel returns the name of a model that supports sampling parameters.
func (b providerCase) samplingModel() string {
	if b.row.Protocol == wire.Claude {
		return "claude-sonnet-4-5"
	}
	return cmp.Or(b.model, "m-1")
}

func conformSeed(t *testing.T, b providerCase) string {
	e, m := b.start(t, textAnswer("ok"), nil)
	in := transcriptOf("", user("go"))
	if slices.Contains(b.row.Params, paramSeed) {
		e.generate(t, m, &Call{}, in, llms.WithSeed(0))
		checkEqual(t, "seed", e.lastRequest(t).seed, 0)
		return "yes"
	}
	_, err := generate(t.Context(), m, newCall(&Call{}, in, nil, llms.WithSeed(7)))
	f := failureOf(t, err)
	checkEqual(t, "class", f.Class, contract.ClassBadRequest)
	checkContains(t, f.Text, "does not support seed")
	return "refused"
}
