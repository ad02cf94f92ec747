package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/tool"
)

// suiteRequest has the fields of a chat completion request that the stub reads.
type suiteRequest struct {
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Tools []struct {
		Function struct {
			Name       string
			Parameters struct{ Properties map[string]json.RawMessage }
		}
	}
	Format struct {
		Schema struct {
			Schema struct{ Properties map[string]json.RawMessage }
		} `json:"json_schema"`
	} `json:"response_format"`
}

// suiteModel serves the suite's stub model, whose answer depends on the text of the last message.
func suiteModel(t *testing.T, table map[string]json.RawMessage) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in suiteRequest
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Messages) == 0 {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		message, reason := in.answer(table), "stop"
		if message["tool_calls"] != nil {
			reason = "tool_calls"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"model": "stub", "choices": []any{map[string]any{"message": message, "finish_reason": reason}}})
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func textMessage(text string) map[string]any {
	return map[string]any{"role": "assistant", "content": text}
}

func callMessage(name string, args json.RawMessage) map[string]any {
	return map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{
		map[string]any{"id": "call", "type": "function", "function": map[string]any{"name": name, "arguments": string(args)}}}}
}

func (in *suiteRequest) answer(table map[string]json.RawMessage) map[string]any {
	last := in.Messages[len(in.Messages)-1]
	text := textIn(last.Content)
	for key, reply := range table {
		if key == text || sameJSON([]byte(key), []byte(text)) {
			return in.reply(reply)
		}
	}
	if last.Role != "tool" {
		return textMessage("Unhandled")
	}
	value := scalarJSON(text)
	for _, f := range in.Tools {
		if f.Function.Name != "submit_result" {
			continue
		}
		for name := range f.Function.Parameters.Properties {
			return callMessage("submit_result", fmt.Appendf(nil, "{%q:%s}", name, value))
		}
	}
	return textMessage(string(value))
}

func (in *suiteRequest) reply(raw json.RawMessage) map[string]any {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if p := in.Format.Schema.Schema.Properties; len(p) == 1 {
			for name := range p {
				return textMessage(fmt.Sprintf("{%q:%s}", name, scalarJSON(text)))
			}
		}
		return textMessage(text)
	}
	var call struct {
		Call struct {
			Name string
			Args json.RawMessage
		} `json:"tool_call"`
	}
	if err := json.Unmarshal(raw, &call); err != nil {
		return textMessage(err.Error())
	}
	return callMessage(in.toolName(call.Call.Name), call.Call.Args)
}

// toolName returns name if the request has that tool, and otherwise its first tool: the suite's table
// has one row for agents with different tools.
func (in *suiteRequest) toolName(name string) string {
	first := name
	for i, f := range in.Tools {
		if i == 0 {
			first = f.Function.Name
		}
		if f.Function.Name == name {
			return name
		}
	}
	return first
}

// textIn returns the text of a message's content, which is a string or a list of parts.
func textIn(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(raw, &parts) // an invalid content has no text
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// scalarJSON returns a tool result as JSON. An object with a single scalar is reduced to the scalar.
func scalarJSON(text string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) == nil && len(object) == 1 {
		for _, v := range object {
			if v[0] != '{' && v[0] != '[' {
				return v
			}
		}
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	raw, _ := json.Marshal(text) // a string can always be encoded
	return raw
}

// suiteServer serves the suite's MCP server and returns its URL.
func suiteServer(t *testing.T) string {
	s := server.NewMCPServer("suite", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("get_user_session"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("{\n  \"PersonId\": \"1\",\n  \"Username\": \"Bob.b\",\n  \"DisplayName\": \"Bob B\"\n}"), nil
	})
	s.AddTool(mcp.NewTool("get_payslips", mcp.WithNumber("PersonId")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("<payslip json of person 1>"), nil
	})
	srv := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}

type twoNumbers struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

var (
	suitePeople  = map[string][]string{"Bob": {"No", "USA"}, "Steve": {"No", "USA"}, "Samir": {"Yes", "Morocco"}, "Ayoub": {"Yes", "Morocco"}}
	suiteStaff   = map[string]string{"Bob": "1000", "Steve": "1000", "Samir": "3000", "Ayoub": "3000"}
	suiteWeather = map[string]string{"Agadir": "Sunny", "Nunavut": "Cold", "Unknown": "Unknown"}
)

// suiteTools returns the suite's tools.
func suiteTools(calls *suiteCalls) []tool.Function {
	return []tool.Function{
		countedTool(calls, "multiplication_tool", func(in twoNumbers) any { return map[string]any{"product": in.A * in.B} }),
		countedTool(calls, "summation_tool", func(in twoNumbers) any { return map[string]any{"sum": in.A + in.B} }),
		countedTool(calls, "multiply_tool", func(in twoNumbers) any { return in.A * in.B }),
		countedTool(calls, "divide_tool", func(in twoNumbers) any { return in.A / in.B }),
		countedTool(calls, "weather_tool", func(in struct {
			City string `json:"city"`
		}) any {
			return suiteWeather[in.City]
		}),
		countedTool(calls, "square_tool", func(in struct {
			Input float64 `json:"input"`
		}) any {
			return in.Input * in.Input
		}),
		countedTool(calls, "division_tool", func(in struct {
			Numerator   float64 `json:"numerator"`
			Denominator float64 `json:"denominator"`
		}) any {
			return in.Numerator / in.Denominator
		}),
		countedTool(calls, "squared_sum_root_tool", func(in struct {
			List []float64 `json:"input_list"`
		}) any {
			sum := 0.0
			for _, x := range in.List {
				sum += x
			}
			return math.Sqrt(sum)
		}),
		countedTool(calls, "wait_2_seconds_tool", func(struct{}) any { return nil }),
		countedTool(calls, "search_person_info_tool", func(in struct {
			Query string `json:"query"`
		}) any {
			if p := suitePeople[in.Query]; p != nil {
				return append([]string{in.Query}, p...)
			}
			return []string{in.Query, "Unknown", "Unknown"}
		}),
		countedTool(calls, "search_number_employees_info_tool", func(in struct {
			Query string `json:"query"`
		}) any {
			if n := suiteStaff[in.Query]; n != "" {
				return []string{in.Query, n}
			}
			return []string{in.Query, "Unknown"}
		}),
		countedTool(calls, "merge_info_tool", func(in struct {
			People []string `json:"search_person_info_results"`
			Staff  []string `json:"search_number_employees_info_results"`
		}) any {
			return append(slices.Clone(in.People), in.Staff[1])
		}),
	}
}

func countedTool[In any](calls *suiteCalls, name string, fn func(In) any) tool.Function {
	return tool.Func(name, "", func(_ context.Context, in In) (any, error) {
		calls.record(name)
		return fn(in), nil
	})
}
