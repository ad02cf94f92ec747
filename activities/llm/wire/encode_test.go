package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

// newRequest returns a request with tools and no other options.
func newRequest(in ...contract.Message) *Request {
	tool := func(name string) llms.Tool {
		return llms.Tool{Type: "function", Function: &llms.FunctionDefinition{Name: name, Parameters: json.RawMessage(`{"type":"object"}`)}}
	}
	return &Request{System: "be good", Messages: in, Options: llms.CallOptions{Temperature: -1, TopP: -1, Seed: -1, Tools: []llms.Tool{tool("get"), tool("put")}}}
}

func user(text string) contract.Message { return contract.Message{Role: "user", Text: text} }

func toolCalls(ids ...string) contract.Message {
	m := contract.Message{Role: "assistant"}
	for _, id := range ids {
		m.Calls = append(m.Calls, contract.ToolCall{ID: id, Name: "get", Arguments: "{}"})
	}
	return m
}

func result(id, text string) contract.Message {
	return contract.Message{Role: "tool", CallID: id, Name: "get", Text: text}
}

// encodeRequest encodes a request, and checks that the encoding is deterministic.
func encodeRequest(t *testing.T, m *Model, q *Request) []byte {
	t.Helper()
	out, err := m.Encode(q)
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.Encode(q)
	if err != nil || !bytes.Equal(again.Body, out.Body) {
		t.Errorf("two equal requests differ: %v", err)
	}
	return out.Body
}

// jsonField returns the JSON of a nested field.
func jsonField(t *testing.T, raw []byte, path ...string) string {
	t.Helper()
	for _, key := range path {
		var v map[string]json.RawMessage
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		raw = v[key]
	}
	return string(raw)
}

// TestStableRequestPrefix checks that each request of a growing conversation extends the previous one, so that prompt caches hit.
func TestStableRequestPrefix(t *testing.T) {
	all := []contract.Message{
		user("hello <&>"), toolCalls("a", strings.Repeat("long", 20)), result("a", "1"), result(strings.Repeat("long", 20), ""),
		{Role: "assistant", Text: "both"}, user("go on"), toolCalls("d"), result("d", "2"), {Role: "assistant", Text: "done"}, user("thanks"),
	}
	for _, protocol := range []string{Chat, Claude, Gemini, OCI} {
		m := &Model{Server: Server{Protocol: protocol, ToolChoice: true}, Provider: "fake", Name: "m", NoCache: true}
		var before []byte
		for n := 1; n <= len(all); n++ {
			if n < len(all) && all[n].Role == "tool" {
				continue // the turn is not complete
			}
			raw := encodeRequest(t, m, newRequest(all[:n]...))
			if protocol == OCI {
				raw = []byte(jsonField(t, raw, "chatRequest"))
			}
			field := "messages"
			if protocol == Gemini {
				field = "contents"
			}
			now := strings.TrimSuffix(jsonField(t, raw, field), "]")
			if !strings.HasPrefix(now, string(before)) {
				t.Errorf("%q: %d messages:\n%s\ndo not begin with\n%s", protocol, n, now, before)
			}
			before = []byte(now)
		}
	}
}

func TestExtraParameters(t *testing.T) {
	for _, tc := range []struct {
		protocol, extra string
		path            []string
		want            string
	}{
		{Chat, `{"store":false,"metadata":{"a":"b"}}`, []string{"metadata"}, `{"a":"b"}`},
		{Claude, `{"service_tier":"auto"}`, []string{"service_tier"}, `"auto"`},
		{Gemini, `{"generationConfig":{"mediaResolution":"LOW"},"safetySettings":[]}`, []string{"generationConfig"}, `{"maxOutputTokens":9,"mediaResolution":"LOW"}`},
		{OCI, `{"verbosity":"LOW"}`, []string{"chatRequest", "verbosity"}, `"LOW"`},
	} {
		q := newRequest(user("hello"))
		q.Extra, q.Options.MaxTokens = json.RawMessage(tc.extra), 9
		m := &Model{Server: Server{Protocol: tc.protocol}, Provider: "fake", Name: "m"}
		if got := jsonField(t, encodeRequest(t, m, q), tc.path...); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.protocol, got, tc.want)
		}
	}
}

func TestGeminiForeignCalls(t *testing.T) {
	nameless := result("call_1", "1")
	nameless.Name = ""
	q := newRequest(user("go"), toolCalls("call_1", "call_2"), nameless, result("call_2", "2"))
	for model, want := range map[string]int{"gemini-3-pro": 1, "gemini-2.5-pro": 0} {
		raw := string(encodeRequest(t, &Model{Server: Server{Protocol: Gemini}, Provider: "fake", Name: model}, q))
		if strings.Count(raw, noSignature) != want {
			t.Errorf("%s: want %d placeholders in %s", model, want, raw)
		}
		if want := `{"functionResponse":{"id":"call_1","name":"get","response":{"output":"1"}}}`; !strings.Contains(raw, want) {
			t.Errorf("%s: no result %s in %s", model, want, raw)
		}
	}
}

func TestPlaceMedia(t *testing.T) {
	image := func(data string) contract.Media { return contract.Media{MediaType: "image/png", Data: data} }
	one, two := result("a", "a cat"), result("b", "two dogs")
	one.Media, two.Media = []contract.Media{image("1")}, []contract.Media{image("2"), image("3")}
	in := []contract.Message{user("go"), toolCalls("a", "b"), one, two, user("and now?")}
	plain := func(m contract.Message, note string) contract.Message {
		m.Media, m.Text = nil, m.Text+note
		return m
	}
	behind := contract.Message{Role: "user", Media: []contract.Media{image("1"), image("2"), image("3")},
		Text: "The images from the result of get (call a), 1:\nThe images from the result of get (call b), 2:"}
	for name, tc := range map[string]struct {
		model Model
		want  []contract.Message
	}{
		"in results":    {Model{Server: Server{ResultImages: true}}, in},
		"after results": {Model{}, []contract.Message{in[0], in[1], plain(one, ""), plain(two, ""), behind, in[4]}},
		"unsupported":   {Model{NoImages: true}, []contract.Message{in[0], in[1], plain(one, "\n"+"(this model does not support images)"), plain(two, "\n"+"(this model does not support images)"), in[4]}},
	} {
		if diff := cmp.Diff(tc.want, tc.model.placeMedia(in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCallIDs(t *testing.T) {
	long := strings.Repeat("toolu:01/", 20)
	for rule, form := range idFormats {
		m := &Model{Server: Server{CallIDs: rule}}
		got := m.callID(long)
		if !form.accepted.MatchString(got) || m.callID(long) != got || m.callID(long+"x") == got || m.callID(got) != got {
			t.Errorf("rule %d: %q became %q", rule, long, got)
		}
	}
	if got := (&Model{}).callID(long); got != long {
		t.Errorf("without a rule: %q", got)
	}
}
