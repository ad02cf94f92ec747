package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// draft is an answer that is being read. The readers of all protocols embed it.
type draft struct {
	m                        *Model
	text, reasoning, refusal strings.Builder
	// model and finish are the model and the stop reason as reported by the provider.
	model, finish string
	// finishMessage is the provider's message about the stop reason.
	finishMessage string
	calls         []contract.ToolCall
	usage         contract.Usage
	state         providerState
}

func (d *draft) Complete() bool { return d.finish != "" }

func (d *draft) Text() string { return d.text.String() }

func (d *draft) Spent() contract.Usage { return d.usage }

// addCall adds a tool call. Missing arguments become an empty object.
func (d *draft) addCall(id, name, arguments string) error {
	if name == "" {
		return Invalidf("tool call %d of the answer has no name", len(d.calls)+1)
	}
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	d.calls = append(d.calls, contract.ToolCall{ID: id, Name: name, Arguments: arguments})
	return nil
}

// stopReasons maps the stop reasons of providers, in lower case except for Google's, to ours; others are used unchanged.
// An aborted answer is an error, but another attempt may succeed.
var stopReasons = invertReasons(map[string]string{
	"stop":       "stop end_turn eos eos_token stop_sequence complete completed",
	"length":     "length max_tokens max_output_tokens model_length model_context_window_exceeded incomplete",
	Paused:       "pause_turn compaction",
	"tool_calls": "tool_calls tool_call tool_use function_call",
	"content_filter": "content_filter content-filter content_filtered guardrail_intervened safety recitation error_toxic BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY MODEL_ARMOR " +
		"IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION LANGUAGE",
	aborted: "error failed cancelled timeout user_cancel error_limit malformed_model_output malformed_tool_use insufficient_system_resource abort load MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL OTHER FINISH_REASON_UNSPECIFIED " +
		"MALFORMED_RESPONSE MISSING_THOUGHT_SIGNATURE TOO_MANY_TOOL_CALLS NO_IMAGE IMAGE_OTHER",
})

const (
	aborted = "aborted"
	// unexpectedCall is Google's reason for a call of an unknown tool.
	unexpectedCall = "UNEXPECTED_TOOL_CALL"
)

func invertReasons(words map[string]string) map[string]string {
	out := map[string]string{}
	for reason, list := range words {
		for _, word := range strings.Fields(list) {
			out[word] = reason
		}
	}
	return out
}

// result returns the answer if it is complete. field is the protocol's field for the stop reason, for messages.
func (d *draft) result(field string) (*Answer, error) {
	finish := strings.TrimSpace(d.finish)
	stop := cmp.Or(stopReasons[finish], stopReasons[strings.ToLower(finish)], strings.ToLower(finish))
	switch stop {
	case "":
		return nil, Invalidf("the answer ended without a %s after %d bytes of text: it was cut off", field, d.text.Len())
	case aborted:
		if finish == unexpectedCall && len(d.calls) > 0 {
			stop = "tool_calls" // the model is told that the tool is unknown
			break
		}
		return nil, Invalidf("the provider aborted the answer: %s %s %s", field, finish, d.finishMessage)
	}
	out := &Answer{
		Message: contract.Message{Role: contract.RoleAssistant, Text: d.text.String(), Reasoning: d.reasoning.String(), Calls: d.calls},
		Stop:    textutil.Truncate(stop, 60), Model: d.m.Ref(), Refusal: d.refusal.String(), Usage: d.usage,
	}
	out.Usage.Calls = 1
	if d.model != "" && utf8.ValidString(d.model) {
		out.Model = d.m.Provider + "/" + textutil.Truncate(d.model, 200)
	}
	if d.state.empty() && (d.m.Reasoning == "" || d.reasoning.Len() == 0) {
		return out, nil
	}
	d.state.By = d.m.Provider
	out.Message.Provider, _ = textutil.JSON(&d.state) // what was decoded can be encoded
	return out, nil
}

// Paused is the stop reason of an answer that a provider has paused while one of its own tools runs. The answer is the last
// message of the next request, unchanged, and the next answer continues it.
const Paused = "pause_turn"

// Join returns a paused answer and the one that continues it as one answer.
func Join(a, next *Answer) (*Answer, error) {
	out := *next
	out.Message.Text, out.Message.Reasoning = a.Message.Text+next.Message.Text, a.Message.Reasoning+next.Message.Reasoning
	out.Message.Calls = slices.Concat(a.Message.Calls, next.Message.Calls)
	out.Usage.Add(a.Usage)
	first, second := stateOf(&a.Message), stateOf(&next.Message)
	second.By = cmp.Or(second.By, first.By)
	second.Blocks = slices.Concat(first.Blocks, second.Blocks)
	if second.empty() {
		out.Message.Provider = nil
		return &out, nil
	}
	raw, err := textutil.JSON(&second)
	out.Message.Provider = raw
	return &out, err
}

// stateOf returns the state of a message. It has blocks even if the message stores none.
func stateOf(m *contract.Message) providerState {
	var s providerState
	if len(m.Provider) > 0 && json.Unmarshal(m.Provider, &s) == nil && s.Blocks != nil {
		return s
	}
	if m.Text != "" {
		s.Blocks = append(s.Blocks, blockState{Text: len(m.Text)})
	}
	for range m.Calls {
		s.Blocks = append(s.Blocks, blockState{Call: true})
	}
	return s
}

// LooseText is a string. Another JSON value, which some servers send, becomes its JSON text; null becomes "".
type LooseText string

// UnmarshalJSON accepts any JSON value.
func (t *LooseText) UnmarshalJSON(b []byte) error {
	switch {
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(t))
	case string(b) == "null":
		*t = ""
	default:
		*t = LooseText(b)
	}
	return nil
}

// loose decodes an object; fields of an unexpected type are ignored, and so is anything but an object.
type loose[T any] struct{ value *T }

func (l *loose[T]) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return nil
	}
	l.value = new(T)
	if err := json.Unmarshal(b, l.value); !errors.As(err, new(*json.UnmarshalTypeError)) {
		return err
	}
	return nil
}

// looseCount is a token count; an invalid one is 0.
type looseCount int

func (n *looseCount) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > math.MaxInt32 {
		f = 0
	}
	*n = looseCount(f)
	return nil
}

// isSet reports whether an error field holds an error.
func isSet(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "false", "{}", "[]":
		return false
	}
	return true
}
