package llm

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// conversation is what rules look at in a conversation.
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

func newConversation(in []llms.MessageContent) *conversation {
	t := &conversation{turn: 1}
	var all strings.Builder
	for _, mc := range in {
		if mc.Role == llms.ChatMessageTypeSystem {
			continue
		}
		t.last, t.after = "", ""
		var text strings.Builder
		for _, part := range mc.Parts {
			switch p := part.(type) {
			case llms.TextContent:
				text.WriteString(p.Text)
			case llms.ToolCallResponse:
				t.result(&p, &text, &all)
			case FailedResult:
				t.result(&p.ToolCallResponse, &text, &all)
			case llms.ToolCall:
				if p.FunctionCall != nil {
					all.WriteString(p.FunctionCall.Arguments + "\n")
				}
			}
		}
		t.last = text.String()
		all.WriteString(t.last + "\n")
		switch mc.Role {
		case llms.ChatMessageTypeAI:
			t.turn++
		case llms.ChatMessageTypeHuman, llms.ChatMessageTypeGeneric:
			t.user = t.last
		}
	}
	t.all = all.String()
	return t
}

// result takes a tool's result. Of several in one message the last one counts.
func (t *conversation) result(p *llms.ToolCallResponse, text, all *strings.Builder) {
	text.Reset()
	text.WriteString(p.Content)
	t.after = p.Name
	all.WriteString(p.Content + "\n")
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

// matches reports whether all conditions of a rule hold.
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
	if r.Match == "" {
		return true
	}
	re, err := regexp.Compile(r.Match)
	return err == nil && re.MatchString(t.last)
}
