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

// draft is an answer while it is read: what all protocols have in common.
type draft struct {
	m                        *Model
	text, reasoning, refusal strings.Builder
	// model and finish are the provider's own names of the model and the stop reason.
	model, finish string
	// note is what the provider says about the stop reason.
	note  string
	calls []contract.ToolCall
	usage contract.Usage
	state providerState
}

func (d *draft) Complete() bool { return d.finish != "" }

func (d *draft) Text() string { return d.text.String() }

func (d *draft) Spent() contract.Usage { return d.usage }

// addCall adds a tool call. One without arguments has an empty object.
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

// stopReasons are what servers call the end of an answer, in lower case but for Google's; others are kept. An answer that
// the provider aborted is none, but another attempt may succeed.
var stopReasons = reasonsOf(map[string]string{
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
	// unexpectedCall is Google's word for a call of a tool that the model was not offered.
	unexpectedCall = "UNEXPECTED_TOOL_CALL"
)

func reasonsOf(words map[string]string) map[string]string {
	out := map[string]string{}
	for reason, list := range words {
		for _, word := range strings.Fields(list) {
			out[word] = reason
		}
	}
	return out
}

// result checks that the answer is complete. field is the protocol's name of the stop reason.
func (d *draft) result(field string) (*Answer, error) {
	finish := strings.TrimSpace(d.finish)
	stop := cmp.Or(stopReasons[finish], stopReasons[strings.ToLower(finish)], strings.ToLower(finish))
	switch stop {
	case "":
		return nil, Invalidf("the answer ended without a %s after %d bytes of text: it was cut", field, d.text.Len())
	case aborted:
		if finish == unexpectedCall && len(d.calls) > 0 {
			stop = "tool_calls" // the model is told that the tool is unknown
			break
		}
		return nil, Invalidf("the provider aborted the answer: %s %s %s", field, finish, d.note)
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

// Paused is the stop reason of an answer that a provider has paused while a tool of its own runs. The next request has the
// answer as its last message, unchanged, and the next answer continues it.
const Paused = "pause_turn"

// Joined is a paused answer and the one that continues it, as one answer.
func Joined(a, next *Answer) (*Answer, error) {
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

// stateOf is the state of a message, whose blocks it has also where they are plain.
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

// LooseText is a string that some servers send as another JSON value, whose JSON text it keeps; null is empty.
type LooseText string

// UnmarshalJSON takes any JSON value.
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

// loose is an object of which any field, or the whole, may have another form; what cannot be read is left out.
type loose[T any] struct{ is *T }

func (l *loose[T]) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return nil
	}
	l.is = new(T)
	if err := json.Unmarshal(b, l.is); !errors.As(err, new(*json.UnmarshalTypeError)) {
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
