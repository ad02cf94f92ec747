package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/llm/wire"
	"weft/activities/textutil"
)

// scripted is the model that answers from the script in a call. It is stateless, so that a retried call gets the same
// answer on any worker.
type scripted struct {
	// ref is the model's reference: "script", "script/backup" or, if all models are scripted, any.
	ref string
}

// RecordedField is the field of a script in which starter record stores other recorded data. The model ignores it.
const RecordedField = "recorded"

// script is a decoded script. [scriptReader] documents the script tags.
type script struct {
	Rules    []Rule   `json:"rules,omitempty" script:"rules"`
	Default  *Action  `json:"default,omitempty"`
	Recorded struct{} `json:"recorded,omitzero" script:"ignored"`
}

// Rule is an action and its conditions, which must all hold. README.md documents the fields.
type Rule struct {
	At       string `json:"at,omitempty"`
	Node     string `json:"node,omitempty"`
	Model    string `json:"model,omitempty"`
	Kind     string `json:"kind,omitempty" script:"agent|judge|condense"`
	Question string `json:"question,omitempty"`
	Step     *int   `json:"step,omitempty"`
	Turn     *int   `json:"turn,omitempty" script:"1"`
	After    string `json:"after,omitempty"`
	Match    string `json:"match,omitempty" script:"regexp"`
	Text     string `json:"text,omitempty"`
	Contains string `json:"contains,omitempty"`
	Action
}

// Action is an action of the model: an answer, after Delay, or a failure. README.md documents the fields.
type Action struct {
	Say    *string         `json:"say,omitempty" script:"any"`
	JSON   json.RawMessage `json:"json,omitempty"`
	Call   []ScriptCall    `json:"call,omitempty" script:"calls like {tool: NAME, arguments: {...}}"`
	Yes    *bool           `json:"yes,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Delay  string          `json:"delay,omitempty" script:"duration"`
	Stop   string          `json:"stop,omitempty" script:"stop|length|tool_calls|content_filter"`
	Usage  *ScriptUsage    `json:"usage,omitempty"`
	Fail   *ScriptFail     `json:"fail,omitempty"`
}

// ScriptCall is a tool call. Raw replaces Arguments if they need not be JSON.
type ScriptCall struct {
	Tool      string          `json:"tool"`
	ID        string          `json:"id,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty" script:"object"`
	Raw       *string         `json:"raw,omitempty" script:"any"`
}

// ScriptUsage is the usage of an answer, in tokens.
type ScriptUsage struct {
	Input     int `json:"input,omitempty"`
	Output    int `json:"output,omitempty"`
	Cached    int `json:"cached,omitempty"`
	Written   int `json:"cache_write,omitempty"`
	Reasoning int `json:"reasoning,omitempty"`
}

// ScriptFail is a failure of a call or, if Times > 0, of its first Times attempts.
type ScriptFail struct {
	Class      string `json:"class" script:"class"`
	Text       string `json:"text,omitempty"`
	RetryAfter string `json:"retry_after,omitempty" script:"duration"`
	Times      int    `json:"times,omitempty"`
}

// hasAnswer reports whether an action has an answer, with or without a failure.
func (a *Action) hasAnswer() bool {
	return a.Say != nil || a.JSON != nil || len(a.Call) > 0 || a.Yes != nil
}

// answer answers according to the script of a call, or with a labelled sample if there is none.
func (m *scripted) answer(ctx context.Context, call *Call) (*wire.Answer, error) {
	conv := newConversation(call.Messages)
	conv.model = cmp.Or(m.ref, ScriptModel)
	conv.turn = max(conv.turn, call.Turn) // the messages may be the end of a longer conversation
	act, err := chooseAction(call, conv, call.Options.ToolChoice == "none")
	if err != nil {
		return nil, err
	}
	return act.perform(ctx, call, conv.model)
}

func chooseAction(call *Call, conv *conversation, noTools bool) (*Action, error) {
	if len(call.Script) == 0 || string(call.Script) == "null" {
		return sampleAction(call, conv), nil
	}
	s, err := readScript("script", call.Script)
	if err != nil {
		return nil, err
	}
	for i := range s.Rules {
		r := &s.Rules[i]
		if r.usable(call, noTools) && r.matches(call, conv) {
			return &r.Action, nil
		}
	}
	if s.Default != nil && s.Default.usable(call, noTools) {
		return s.Default, nil
	}
	return nil, noRuleFailure(call, conv, noTools)
}

// usable reports whether an action applies to this attempt: it fails the attempt, or has an answer that is allowed.
func (a *Action) usable(call *Call, noTools bool) bool {
	if a.fails(call) {
		return true
	}
	return a.hasAnswer() && !(noTools && len(a.Call) > 0)
}

func (a *Action) fails(call *Call) bool {
	return a.Fail != nil && (a.Fail.Times == 0 || int(max(1, call.Attempt)) <= a.Fail.Times)
}

// noRuleFailure returns the failure of a call without a matching rule. Its remedy shows a rule that matches.
func noRuleFailure(call *Call, conv *conversation, noTools bool) *contract.Failure {
	kind := cmp.Or(call.Kind, KindAgent)
	add := fmt.Sprintf("{node: %q, kind: %s, turn: %d, say: \"...\"}", call.Node, kind, conv.turn)
	text := fmt.Sprintf("the script has no rule for node %q, kind %s, turn %d, step %d", call.Node, kind, conv.turn, call.Step)
	if kind == KindJudge {
		add = fmt.Sprintf("{node: %q, kind: judge, question: %q, yes: true}", call.Node, textutil.Truncate(call.Question, 200))
		text += fmt.Sprintf(", question %q", textutil.Truncate(call.Question, 200))
	}
	if noTools {
		text += ", and no tool may be called"
	}
	return failf(contract.ClassBadRequest, "add a rule like "+add+", or a default", "%s", text)
}

func (a *Action) perform(ctx context.Context, call *Call, model string) (*wire.Answer, error) {
	delay, _ := time.ParseDuration(cmp.Or(a.Delay, "0s")) // ParseScript has checked it
	text := a.text()
	if a.fails(call) {
		if err := sleep(ctx, delay); err != nil {
			return nil, err
		}
		return nil, a.Fail.failure(call)
	}
	if err := stream(ctx, call, text, delay); err != nil {
		return nil, err
	}
	out := &wire.Answer{Message: contract.Message{Role: contract.RoleAssistant, Text: text}, Stop: cmp.Or(a.Stop, "stop"), Model: model}
	for _, c := range a.Call {
		args := cmp.Or(string(c.Arguments), "{}")
		if c.Raw != nil {
			args = *c.Raw
		}
		out.Message.Calls = append(out.Message.Calls, contract.ToolCall{ID: c.ID, Name: c.Tool, Arguments: args})
	}
	out.Usage.Calls = 1
	if u := a.Usage; u != nil {
		out.Usage = contract.Usage{Calls: 1, Input: u.Input, Output: u.Output, Cached: u.Cached, CacheWrite: u.Written, Reasoning: u.Reasoning}
	}
	return out, nil
}

// text returns the text of the answer; a judge's verdict is a JSON object.
func (a *Action) text() string {
	switch {
	case a.Say != nil:
		return *a.Say
	case a.JSON != nil:
		return string(a.JSON)
	case a.Yes != nil:
		b, _ := json.Marshal(struct { // these fields always encode
			Answer string `json:"answer"`
			Reason string `json:"reason"`
		}{map[bool]string{true: "yes", false: "no"}[*a.Yes], a.Reason})
		return string(b)
	}
	return ""
}

func (f *ScriptFail) failure(call *Call) *contract.Failure {
	after, _ := time.ParseDuration(cmp.Or(f.RetryAfter, "0s")) // ParseScript has checked it
	return &contract.Failure{
		Class: f.Class, After: min(after, maxRetryAfter),
		Text: fmt.Sprintf("script: %s (attempt %d)", cmp.Or(f.Text, "scripted failure"), max(1, call.Attempt)),
	}
}

// maxChunks limits the number of chunks in which a scripted text is streamed.
const maxChunks = 64

// stream waits for delay and meanwhile streams the text word by word to [Call].Partial, if set.
func stream(ctx context.Context, call *Call, text string, delay time.Duration) error {
	if text == "" || call.Partial == nil {
		return sleep(ctx, delay)
	}
	words := strings.SplitAfter(text, " ")
	step := (len(words) + maxChunks - 1) / maxChunks
	chunks := (len(words) + step - 1) / step
	sent := 0
	for chunk := range slices.Chunk(words, step) {
		if err := sleep(ctx, delay/time.Duration(chunks)); err != nil {
			return err
		}
		sent += len(strings.Join(chunk, ""))
		call.Partial(text[:sent])
	}
	return nil
}

// sleep waits for d, or returns ctx's error if it is done first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// conversation is what the conditions of rules refer to.
type conversation struct {
	// model is the reference of the called model.
	model string
	// turn is 1 plus the number of the assistant's messages.
	turn int
	// lastText is the text of the last message, afterTool the tool whose result it is, if any.
	lastText, afterTool string
	// userText is the text of the user's last message.
	userText string
	// allText is the text of all messages, tool results and arguments of calls, without the system prompt.
	allText string
}

func newConversation(in []contract.Message) *conversation {
	conv := &conversation{turn: 1}
	var all strings.Builder
	for i := range in {
		m := &in[i]
		conv.lastText, conv.afterTool = m.Text, ""
		for _, c := range m.Calls {
			all.WriteString(c.Arguments + "\n")
		}
		all.WriteString(m.Text + "\n")
		switch m.Role {
		case contract.RoleAssistant:
			conv.turn++
		case contract.RoleTool:
			conv.afterTool = m.Name
		case contract.RoleUser:
			conv.userText = m.Text
		}
	}
	conv.allText = all.String()
	return conv
}

// kind returns the kind of calls that a rule applies to, derived from its question or answer unless set; "" means any.
func (r *Rule) kind() string {
	switch {
	case r.Kind != "":
		return r.Kind
	case r.Question != "" || r.Yes != nil:
		return KindJudge
	case r.hasAnswer():
		return KindAgent
	}
	return ""
}

func (r *Rule) matches(call *Call, conv *conversation) bool {
	kind := r.kind()
	switch {
	case r.At != "" && r.At != call.At && !strings.HasSuffix(call.At, "/"+r.At),
		r.Text != "" && r.Text != conv.lastText,
		r.Node != "" && r.Node != call.Node,
		r.Model != "" && r.Model != conv.model,
		kind != "" && kind != cmp.Or(call.Kind, KindAgent),
		r.Question != "" && r.Question != call.Question,
		r.Step != nil && *r.Step != call.Step,
		r.Turn != nil && *r.Turn != conv.turn,
		r.After != "" && r.After != conv.afterTool,
		r.Contains != "" && !strings.Contains(conv.allText, r.Contains):
		return false
	}
	matched, _ := regexp.MatchString(r.Match, conv.lastText) // ParseScript has checked it; an empty one matches
	return matched
}

// maxUnscriptedSteps is the last step at which conditions hold without a script; after it they do not, so that loops end.
const maxUnscriptedSteps = 20

// sampleAction returns the answer without a script, labelled as such.
func sampleAction(call *Call, conv *conversation) *Action {
	if call.Kind == KindJudge {
		yes := call.Step <= maxUnscriptedSteps
		return &Action{Yes: &yes, Reason: fmt.Sprintf("[script] without a script every condition holds up to step %d", maxUnscriptedSteps)}
	}
	label := fmt.Sprintf("[script] %s answered turn %d", cmp.Or(call.Node, "a node"), conv.turn)
	if conv.userText != "" {
		label += fmt.Sprintf("; the last message was: %s", firstRunes(conv.userText, 200))
	}
	for _, tool := range call.Options.Tools {
		if call.Finish != "" && tool.Function != nil && tool.Function.Name == call.Finish {
			return &Action{Call: []ScriptCall{{Tool: call.Finish, Arguments: sampleArguments(tool.Function.Parameters, label)}}}
		}
	}
	if len(call.Schema) == 0 && !call.JSON {
		return &Action{Say: &label}
	}
	var schema any
	_ = json.Unmarshal(call.Schema, &schema) // without a schema, any object will do
	value, ok := sample(schema, label)
	if !ok || schema == nil {
		value = map[string]any{"script": label}
	}
	raw, _ := textutil.JSON(value) // what was decoded can be encoded
	return &Action{JSON: raw}
}

// sampleArguments returns arguments that match a tool's schema.
func sampleArguments(parameters any, label string) json.RawMessage {
	raw, err := json.Marshal(parameters)
	var schema any
	if err == nil {
		err = json.Unmarshal(raw, &schema)
	}
	value, _ := sample(schema, label)
	if _, ok := value.(map[string]any); err != nil || !ok {
		return json.RawMessage(`{}`)
	}
	raw, _ = textutil.JSON(value) // what was decoded can be encoded
	return raw
}

// firstRunes returns s, truncated to n characters and three dots if it is longer.
func firstRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "..."
		}
	}
	return s
}
