package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
)

// A conversation is stored completely; a model may be sent a part of it, see [plan.Context]. The part is recorded with the thread,
// once for each policy, so that it rarely changes and a provider's cache remains valid.

// window is the part of an agent's conversation that its model is sent; nil is all of it.
type window struct {
	agent *agentRun
	sent  *contract.Sent
	// messages are those of the conversation; nil for those that no model is sent, and those already omitted.
	messages []*contract.Message
}

// bytesPerToken is the estimate for messages whose tokens no model has counted yet.
const bytesPerToken = 4

func (a *agentRun) window() *window {
	if len(a.cfg.Contexts())+len(a.cfg.LongMessagePolicies()) == 0 {
		return nil
	}
	w := &window{agent: a, sent: a.thread.SentBy(a.cfg), messages: make([]*contract.Message, len(a.thread.Entries))}
	for i := w.sent.Skip; i < len(w.messages); i++ {
		if m, err := contract.DecodeMessage(a.thread.Entries[i].Raw); err == nil && !m.Aside {
			w.messages[i] = m
		}
	}
	return w
}

// shown describes the window for the next model call; nil is the entire conversation.
func (w *window) shown() *contract.Sent {
	if w == nil || w.sent.Skip == 0 && w.sent.Texts == nil {
		return nil
	}
	return &contract.Sent{Skip: w.sent.Skip, Note: w.sent.Note, Texts: slices.Clone(w.sent.Texts)}
}

// counted records the tokens that a model counted, and the size of its context.
func (w *window) counted(res *contract.ModelResult) {
	if w == nil || w.agent.cfg.Context == nil || w.agent.cfg.Context.Tokens == 0 && res.Context == 0 {
		return
	}
	w.sent.Context = cmp.Or(res.Context, w.sent.Context)
	if res.Usage.Input > 0 {
		w.sent.Tokens, w.sent.Counted = res.Usage.Input+res.Usage.Output, len(w.agent.thread.Entries)
	}
}

// limit returns the maximum number of tokens to send; 0 means no limit. A policy that shortens leaves a quarter of the model's
// context for the answer.
func (w *window) limit(c *plan.Context) int {
	room := w.sent.Context - w.sent.Context/4
	if room > 0 && c.How != plan.ContextFail && (c.Tokens == 0 || c.Tokens > room) {
		return room
	}
	return c.Tokens
}

// fit shortens the window to what the policies allow. refused is set if the model rejected it as too long.
func (w *window) fit(ctx workflow.Context, refused bool) (changed bool, err error) {
	if w == nil {
		return false, nil
	}
	if err := w.shorten(ctx); err != nil {
		return false, err
	}
	for _, c := range w.agent.cfg.Contexts() {
		cut, err := w.cut(ctx, c, refused)
		if err != nil {
			return false, err
		}
		changed, refused = changed || cut, refused && !cut
	}
	return changed, nil
}

// cut omits the oldest messages according to a policy. refused is set if the model rejected the window as too long.
func (w *window) cut(ctx workflow.Context, c *plan.Context, refused bool) (changed bool, err error) {
	s := w.sent
	switch {
	case !refused && !w.over(c), refused && c.How == plan.ContextFail:
		return false, nil
	case c.How == plan.ContextFail:
		return false, w.agent.run.Fail(w.agent.execution, contract.ClassContextLength, "set the policy truncate or summarise, or raise its threshold",
			"the conversation is about %d tokens in %d messages, more than the agent's policy allows", w.tokens(), len(w.messages))
	}
	upto := w.cutAt(c, refused)
	if upto <= s.Skip {
		return false, nil
	}
	note := fmt.Sprintf("[%d earlier messages of this conversation are omitted]", upto)
	if c.How == plan.ContextSummarise {
		text, err := w.summary(ctx, c.Summary, s.Skip, upto, s.Note)
		if err != nil {
			return false, err
		}
		if text != "" {
			note = strings.ReplaceAll(c.Summary.Template, "{{summary}}", text)
		}
	}
	s.Skip, s.Note, s.Tokens = upto, note, 0
	s.Texts = slices.DeleteFunc(s.Texts, func(t contract.SentText) bool { return t.Index < upto })
	return true, nil
}

// over reports whether the window exceeds a threshold of a policy.
func (w *window) over(c *plan.Context) bool {
	s, messages := w.sent, min(w.sent.Skip, 1)
	for i := s.Skip; i < len(w.messages); i++ {
		if w.messages[i] != nil {
			messages++
		}
	}
	return c.Messages > 0 && messages > c.Messages || w.tooMany(c) ||
		c.Characters > 0 && w.total(s.Skip, utf8.RuneCountInString)+utf8.RuneCountInString(s.Note) > c.Characters
}

// tooMany reports whether the window has more tokens than its limit.
func (w *window) tooMany(c *plan.Context) bool {
	limit := w.limit(c)
	return limit > 0 && w.tokens() > limit
}

// tokens estimates the window's tokens: those that the model counted last, plus the messages since.
func (w *window) tokens() int {
	if w.sent.Tokens > 0 && w.sent.Counted <= len(w.messages) {
		return w.sent.Tokens + (w.total(w.sent.Counted, bytesOf)+bytesPerToken-1)/bytesPerToken
	}
	return (len(w.agent.cfg.System) + len(w.sent.Note) + w.total(w.sent.Skip, bytesOf) + bytesPerToken - 1) / bytesPerToken
}

func bytesOf(text string) int { return len(text) }

// total measures the messages from an index on.
func (w *window) total(from int, measure func(string) int) int {
	n := 0
	for i := from; i < len(w.messages); i++ {
		n += w.size(i, measure)
	}
	return n
}

// size measures a message as it would be sent.
func (w *window) size(i int, measure func(string) int) int {
	m, n := w.messages[i], 0
	if m == nil {
		return 0
	}
	if k := w.shortened(i); k >= 0 {
		n = measure(w.sent.Texts[k].Text)
	} else {
		n = w.textSize(m, measure)
		for k := range m.Media {
			n += m.Media[k].TextSize()
		}
	}
	for _, c := range m.Calls {
		n += measure(c.Name) + measure(c.Arguments)
	}
	return n
}

// shortened returns the index of the text that replaces a message; -1 if none does.
func (w *window) shortened(i int) int {
	return slices.IndexFunc(w.sent.Texts, func(t contract.SentText) bool { return t.Index == i })
}

// textSize measures a message's text, including referenced content that this run holds.
func (w *window) textSize(m *contract.Message, measure func(string) int) int {
	if len(m.Parts) == 0 {
		return measure(m.Text)
	}
	n := 0
	for _, p := range m.Parts {
		text := p.Text
		if p.Ref != nil {
			if inner, err := contract.DecodeMessage(w.agent.run.Transcript.Content[p.Ref.SHA]); err == nil {
				text = inner.Text
			}
		}
		n += measure(p.Shown(text))
	}
	return n
}

// cutAt returns the index of the first message to send from now on.
func (w *window) cutAt(c *plan.Context, refused bool) int {
	n, skip := len(w.messages), w.sent.Skip
	for n > 0 && w.messages[n-1] == nil {
		n--
	}
	isResult := func(i int) bool { return w.messages[i] != nil && w.messages[i].Role == contract.RoleTool }
	last := n - max(c.Keep, 1)
	at, tight := last, refused || w.tooMany(c)
	if tight {
		at = w.roomFrom(c, at, refused)
	}
	// Tool results stay with their calls: both are sent if they fit, else both are omitted.
	left, right := max(at, skip), max(at, skip+1)
	for right < n && isResult(right) {
		right++
	}
	for left > skip && isResult(left) {
		left--
	}
	if tight && (right <= last || left == skip && right < n) {
		return right
	}
	return left
}

// roomFrom returns the lowest index from which the messages before at fit into half of the limit, or of the current window.
func (w *window) roomFrom(c *plan.Context, at int, refused bool) int {
	room := w.limit(c) / 2 * bytesPerToken
	if refused || room == 0 {
		room = w.total(w.sent.Skip, bytesOf) / 2
	}
	for ; at > w.sent.Skip; at-- {
		if room -= w.size(at-1, bytesOf); room < 0 {
			break
		}
	}
	return at
}

// shorten replaces long messages by summaries, each created once. A policy applies to the result of the policy before it.
func (w *window) shorten(ctx workflow.Context) error {
	longs := w.agent.cfg.LongMessagePolicies()
	for i := w.sent.Skip; len(longs) > 0 && i < len(w.messages); i++ {
		if w.messages[i] == nil || w.shortened(i) >= 0 {
			continue
		}
		short, size := "", w.textSize(w.messages[i], utf8.RuneCountInString)
		for _, l := range longs {
			if size <= l.Characters {
				continue
			}
			to := i + 1
			if short != "" {
				to = i // the previous summary replaces the message
			}
			text, err := w.summary(ctx, &l.Summary, i, to, short)
			if err != nil {
				return err
			}
			short = strings.ReplaceAll(l.Summary.Template, "{{summary}}", cmp.Or(text, "(this message was too long to be sent or summarized)"))
			size = utf8.RuneCountInString(short)
		}
		if short != "" {
			w.sent.Texts = append(w.sent.Texts, contract.SentText{Index: i, Text: short})
		}
	}
	return nil
}

// summary has a model summarise messages of the thread. It returns "" if they are too long for that model, too.
func (w *window) summary(ctx workflow.Context, by *plan.Summary, from, to int, previous string) (string, error) {
	r, x := w.agent.run, w.agent.execution
	in := contract.SummariseInput{Model: modelRef(w.agent, by.Model), Script: r.Shared.Script, Node: w.agent.who(), Step: x.Step, Instructions: by.Instructions,
		Params: by.Params, From: from, To: to, Before: previous, Home: r.Home()}
	in.Base, in.Tail = w.agent.thread.Pending()
	w.agent.state.Summaries++
	var out contract.SummariseResult
	err := r.CallStep(ctx, x.Journal, contract.HashOf(w.agent.thread.Hash, strconv.Itoa(from), strconv.Itoa(to), previous), &runtime.Call{
		Activity: contract.ActivitySummariseConversation, Args: []any{&in}, What: "a summary of the conversation", At: x,
		ID: fmt.Sprintf("%s/summary/%d.%d", x.ID, w.agent.state.Turn, w.agent.state.Summaries), Summary: fmt.Sprintf("%s · summary · %s", w.agent.who(), in.Model),
		Options: r.Options(r.Flow.Policy.ModelSeconds), Model: &runtime.ModelCall{Bytes: w.agent.thread.Bytes}, Out: &out,
	})
	if tooLong(err) {
		return "", nil
	}
	return strings.TrimSpace(out.Text), err
}

// tooLong reports whether a model rejected its input as too long.
func tooLong(err error) bool {
	return err != nil && contract.FailureOf(err).Class == contract.ClassContextLength
}
