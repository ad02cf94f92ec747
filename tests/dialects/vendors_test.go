package dialects

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weft/activities/llm"
	llmwire "weft/activities/llm/wire"
)

// wire describes how the servers of one protocol encode the two replies of examples/weather: a call of
// the tool and, after its result, a text.
type wire struct {
	// path is the suffix of the URL path; header contains the key, after prefix.
	path, header, prefix string
	// result marks a tool's result in a request.
	result string
	// call and say are the events of streamed replies; unaryCall and unarySay are the same replies without
	// streaming, for protocols that are also used without it.
	call, say           []string
	unaryCall, unarySay string
}

const weatherSaid = "The sky of Oslo is clear, at 21 degrees."

var wires = map[string]wire{
	"": {
		path: "/chat/completions", header: "Authorization", prefix: "Bearer ", result: `"role":"tool"`,
		call: []string{
			`{"model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call12345","type":"function","function":{"name":"weather","arguments":"{\"city\":"}}]}}]}`,
			`{"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}}]}`,
			`{"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`,
		},
		say: []string{
			`{"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"The sky of Oslo is clear, "}}]}`,
			`{"model":"m","choices":[{"index":0,"delta":{"content":"at 21 degrees."}}]}`,
			`{"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`,
		},
		unaryCall: `{"model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call12345","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]}}]}`,
		unarySay:  `{"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"` + weatherSaid + `"}}]}`,
	},
	llmwire.Claude: {
		path: "/messages", header: "X-Api-Key", result: `"type":"tool_result"`,
		call: []string{
			`{"type":"message_start","message":{"type":"message","model":"m","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Oslo\"}"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`,
		},
		say: []string{
			`{"type":"message_start","message":{"type":"message","model":"m","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + weatherSaid + `"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`,
		},
	},
	llmwire.Responses: {
		path: "/responses", header: "Authorization", prefix: "Bearer ",
		result: `"encrypted_content":"U0lH"},{"arguments":"{\"city\":\"Oslo\"}","call_id":"call_1","name":"weather","type":"function_call"},{"call_id":"call_1"`,
		call: []string{
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"U0lH"}}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Oslo\"}"}}`,
			`{"type":"response.completed","response":{"model":"m","status":"completed","output":[],"usage":{"input_tokens":9,"output_tokens":7}}}`,
		},
		say: []string{
			`{"type":"response.output_text.delta","output_index":0,"delta":"The sky of Oslo is clear, "}`,
			`{"type":"response.completed","response":{"model":"m","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"` + weatherSaid + `"}]}]}}`,
		},
	},
	llmwire.Gemini: {
		path: ":streamGenerateContent", header: "X-Goog-Api-Key", result: `"functionResponse"`,
		call: []string{`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"id":"c1","name":"weather","args":{"city":"Oslo"}},"thoughtSignature":"U0lH"}]},"finishReason":"STOP"}]}`},
		say:  []string{`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"` + weatherSaid + `"}]},"finishReason":"STOP"}]}`},
	},
	llmwire.Cohere: {
		path: "/chat", header: "Authorization", prefix: "Bearer ", result: `"role":"tool"`,
		call: []string{
			`{"type":"message-start","id":"x","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[]}}}`,
			`{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I will look."}}}`,
			`{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"c1","type":"function","function":{"name":"weather","arguments":""}}}}}`,
			`{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{\"city\":\"Oslo\"}"}}}}}`,
			`{"type":"message-end","delta":{"finish_reason":"TOOL_CALL","usage":{"tokens":{"input_tokens":9,"output_tokens":7}}}}`,
		},
		say: []string{
			`{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}`,
			`{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"` + weatherSaid + `"}}}}`,
			`{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`,
		},
	},
	llmwire.Converse: {
		path: "/converse-stream", header: "Authorization", prefix: "Bearer ", result: `"toolResult"`,
		unaryCall: `{"stopReason":"tool_use","output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"c1","name":"weather","input":{"city":"Oslo"}}}]}},"usage":{"inputTokens":9,"outputTokens":7}}`,
		unarySay:  `{"stopReason":"end_turn","output":{"message":{"role":"assistant","content":[{"text":"` + weatherSaid + `"}]}}}`,
	},
	llmwire.OCI: {
		path: "/20231130/actions/chat", header: "Authorization", prefix: `Signature version="1",`, result: `"toolCallId"`,
		call: []string{
			`{"index":0,"message":{"role":"ASSISTANT","toolCalls":[{"type":"FUNCTION","id":"c1","name":"weather","arguments":"{\"city\":\"Oslo\"}"}]}}`,
			`{"message":{"role":"ASSISTANT","content":[{"type":"TEXT","text":""}]},"finishReason":"tool_calls"}`, `[DONE]`,
		},
		say: []string{
			`{"index":0,"message":{"role":"ASSISTANT","content":[{"type":"TEXT","text":"` + weatherSaid + `"}]}}`,
			`{"message":{"role":"ASSISTANT","content":[{"type":"TEXT","text":""}]},"finishReason":"stop"}`, `[DONE]`,
		},
	},
}

// vendorKey is the API key that fake servers require.
const vendorKey = "key-of-the-example"

// vendor is a fake server of one protocol, which checks the key, the tool and, in the second request,
// the tool's result.
type vendor struct {
	wire
	mu    sync.Mutex
	calls []string // the replies sent: call or say
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	body := strings.NewReplacer(" ", "", "\n", "").Replace(string(raw))
	key, signed := strings.CutPrefix(r.Header.Get(v.header), v.prefix)
	hasResult := strings.Contains(body, v.result)
	switch {
	case !strings.HasSuffix(r.URL.Path, v.path):
		http.NotFound(w, r)
		return
	case !signed || v.path != wires[llmwire.OCI].path && key != vendorKey:
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	case !strings.Contains(body, `"name":"weather"`), hasResult && (!strings.Contains(body, "clear") || !strings.Contains(body, "21")):
		http.Error(w, "missing tool or tool result: "+string(raw), http.StatusBadRequest)
		return
	}
	events, unary, what := v.call, v.unaryCall, "call"
	if hasResult {
		events, unary, what = v.say, v.unarySay, "say"
	}
	v.mu.Lock()
	v.calls = append(v.calls, what)
	v.mu.Unlock()
	if unary != "" && !strings.Contains(body, `"stream":true`) {
		fmt.Fprint(w, unary)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprintf(w, "data: %s\n\n", e)
	}
}

// newVendor starts a fake server of a protocol and returns the settings of a provider that uses it.
func newVendor(t *testing.T, protocol string) (*vendor, llm.ProviderSettings) {
	t.Helper()
	v := &vendor{wire: wires[protocol]}
	srv := httptest.NewServer(v)
	t.Cleanup(srv.Close)
	set := llm.ProviderSettings{BaseURL: srv.URL + "/v1", Key: vendorKey}
	if protocol == llmwire.OCI {
		set = llm.ProviderSettings{BaseURL: srv.URL, Compartment: "ocid1.compartment.oc1..c", AuthFile: ociKeys(t)}
	}
	return v, set
}

// ociKeys writes a configuration file and its key as OCI's command line does.
func ociKeys(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, config := filepath.Join(dir, "key.pem"), filepath.Join(dir, "config")
	for name, text := range map[string]string{
		file:   string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		config: "[DEFAULT]\nuser=ocid1.user.oc1..u\ntenancy=ocid1.tenancy.oc1..t\nregion=us-chicago-1\nfingerprint=aa:bb\nkey_file=" + file + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config
}
