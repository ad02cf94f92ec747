package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

type conversation struct {
	// model is the one that is asked.
	model string
	// turn is 1 plus the number of the assistant's messages.
	turn int
	// last is the text of the last message, after the tool whose result it is.
	last, after string
	// user is the text of the last message of the user.
	user string
	// all is every text but the system prompt's, with results and arguments of tools.
	all string
}

func newConversation(in []contract.Message) *conversation {
	t := &conversation{turn: 1}
	var all strings.Builder
	for i := range in {
		m := &in[i]
		t.last, t.after = m.Text, ""
		for _, c := range m.Calls {
			all.WriteString(c.Arguments + "\n")
		}
		all.WriteString(m.Text + "\n")
		switch m.Role {
		case contract.RoleAssistant:
			t.turn++
		case contract.RoleTool:
			t.after = m.Name
		case contract.RoleUser:
			t.user = m.Text
		}
	}
	t.all = all.String()
	return t
}

// kind is the kind of calls that a rule is for: that of its question or answer unless it is set; "" is any.
func (r *Rule) kind() string {
	switch {
	case r.Kind != "":
		return r.Kind
	case r.Question != "" || r.Yes != nil:
		return KindJudge
	case r.answers():
		return KindAgent
	}
	return ""
}

func (r *Rule) matches(call *Call, t *conversation) bool {
	want := r.kind()
	switch {
	case r.At != "" && r.At != call.At && !strings.HasSuffix(call.At, "/"+r.At),
		r.Text != "" && r.Text != t.last,
		r.Node != "" && r.Node != call.Node,
		r.Model != "" && r.Model != t.model,
		want != "" && want != cmp.Or(call.Kind, KindAgent),
		r.Question != "" && r.Question != call.Question,
		r.Step != nil && *r.Step != call.Step,
		r.Turn != nil && *r.Turn != t.turn,
		r.After != "" && r.After != t.after,
		r.Contains != "" && !strings.Contains(t.all, r.Contains):
		return false
	}
	matched, _ := regexp.MatchString(r.Match, t.last) // ParseScript has checked it; an empty one matches
	return matched
}

// unscriptedSteps is after which step of a run conditions no longer hold without a script, so that loops end.
const unscriptedSteps = 20

// sampleAction is the answer without a script, labelled as such.
func sampleAction(call *Call, t *conversation) *Action {
	if call.Kind == KindJudge {
		yes := call.Step <= unscriptedSteps
		return &Action{Yes: &yes, Reason: fmt.Sprintf("[script] without a script every condition holds up to step %d", unscriptedSteps)}
	}
	label := fmt.Sprintf("[script] %s answered turn %d", cmp.Or(call.Node, "a node"), t.turn)
	if t.user != "" {
		label += fmt.Sprintf("; the last message was: %s", firstRunes(t.user, 200))
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
	_ = json.Unmarshal(call.Schema, &schema) // without one it is any object
	value, ok := sample(schema, label)
	if !ok || schema == nil {
		value = map[string]any{"script": label}
	}
	raw, _ := textutil.JSON(value) // what was decoded can be encoded
	return &Action{JSON: raw}
}

// sampleArguments are arguments of the shape of a tool's schema.
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

// firstRunes is s, or its first n characters and three dots.
func firstRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "..."
		}
	}
	return s
}
