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

// A conversation is kept whole; what a model is sent of it may be less, see [plan.Context]. That stands beside the thread, once for
// each policy, so that it changes seldom and a provider's cache holds.

// window is what of an agent's conversation its model is sent; nil is all of it.
type window struct {
	a *agentRun
	s *contract.Sent
	// messages are those of the conversation, nil for those that no model is sent, and those that are left out already.
	messages []*contract.Message
}

// bytesPerToken is the estimate for what no model has counted yet.
const bytesPerToken = 4

func (a *agentRun) window() *window {
	if len(a.cfg.Contexts())+len(a.cfg.Longs()) == 0 {
		return nil
	}
	w := &window{a: a, s: a.thread.SentBy(a.cfg), messages: make([]*contract.Message, len(a.thread.Entries))}
	for i := w.s.Skip; i < len(w.messages); i++ {
		if m, err := contract.DecodeMessage(a.thread.Entries[i].Raw); err == nil && !m.Aside {
			w.messages[i] = m
		}
	}
	return w
}

// shown is what the next model call is told of it; nil is everything.
func (w *window) shown() *contract.Sent {
	if w == nil || w.s.Skip == 0 && w.s.Texts == nil {
		return nil
	}
	return &contract.Sent{Skip: w.s.Skip, Note: w.s.Note, Texts: slices.Clone(w.s.Texts)}
}

// counted notes what a model counted, and how much it takes.
func (w *window) counted(res *contract.ModelResult) {
	if w == nil || w.a.cfg.Context == nil || w.a.cfg.Context.Tokens == 0 && res.Context == 0 {
		return
	}
	w.s.Context = cmp.Or(res.Context, w.s.Context)
	if res.Usage.Input > 0 {
		w.s.Tokens, w.s.Counted = res.Usage.Input+res.Usage.Output, len(w.a.thread.Entries)
	}
}

// limit is how many tokens are sent at most; 0 is any number. A policy that shortens leaves a quarter of the context that a server
// has to the answer.
func (w *window) limit(c *plan.Context) int {
	room := w.s.Context - w.s.Context/4
	if room > 0 && c.How != plan.ContextFail && (c.Tokens == 0 || c.Tokens > room) {
		return room
	}
	return c.Tokens
}

// fit makes what is sent fit. refused says that a model found it too long.
func (w *window) fit(ctx workflow.Context, refused bool) (changed bool, err error) {
	if w == nil {
		return false, nil
	}
	if err := w.shorten(ctx); err != nil {
		return false, err
	}
	for _, c := range w.a.cfg.Contexts() {
		cut, err := w.cut(ctx, c, refused)
		if err != nil {
			return false, err
		}
		changed, refused = changed || cut, refused && !cut
	}
	return changed, nil
}

// cut leaves out what a policy leaves out. refused says that a model found what is sent too long.
func (w *window) cut(ctx workflow.Context, c *plan.Context, refused bool) (changed bool, err error) {
	s := w.s
	switch {
	case !refused && !w.over(c), refused && c.How == plan.ContextFail:
		return false, nil
	case c.How == plan.ContextFail:
		return false, w.a.run.Fail(w.a.execution, contract.ClassContextLength, "set the policy truncate or summarise, or raise its threshold",
			"the conversation is about %d tokens in %d messages, more than the agent's policy sends", w.tokens(), len(w.messages))
	}
	upto := w.cutAt(c, refused)
	if upto <= s.Skip {
		return false, nil
	}
	note := fmt.Sprintf("[%d earlier messages of this conversation are left out here]", upto)
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

// over reports whether what would be sent is beyond a threshold.
func (w *window) over(c *plan.Context) bool {
	s, messages := w.s, min(w.s.Skip, 1)
	for i := s.Skip; i < len(w.messages); i++ {
		if w.messages[i] != nil {
			messages++
		}
	}
	return c.Messages > 0 && messages > c.Messages || w.tooMany(c) ||
		c.Characters > 0 && w.total(s.Skip, utf8.RuneCountInString)+utf8.RuneCountInString(s.Note) > c.Characters
}

// tooMany reports whether there are more tokens than are sent.
func (w *window) tooMany(c *plan.Context) bool {
	limit := w.limit(c)
	return limit > 0 && w.tokens() > limit
}

// tokens estimates what would be sent: what the model counted last, and what came since.
func (w *window) tokens() int {
	if w.s.Tokens > 0 && w.s.Counted <= len(w.messages) {
		return w.s.Tokens + (w.total(w.s.Counted, bytesOf)+bytesPerToken-1)/bytesPerToken
	}
	return (len(w.a.cfg.System) + len(w.s.Note) + w.total(w.s.Skip, bytesOf) + bytesPerToken - 1) / bytesPerToken
}

func bytesOf(text string) int { return len(text) }

// total measures the messages from a place on.
func (w *window) total(from int, measure func(string) int) int {
	n := 0
	for i := from; i < len(w.messages); i++ {
		n += w.size(i, measure)
	}
	return n
}

// size measures one message as it would be sent.
func (w *window) size(i int, measure func(string) int) int {
	m, n := w.messages[i], 0
	if m == nil {
		return 0
	}
	if k := w.shortened(i); k >= 0 {
		n = measure(w.s.Texts[k].Text)
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

// shortened finds what stands for a message; -1 if nothing does.
func (w *window) shortened(i int) int {
	return slices.IndexFunc(w.s.Texts, func(t contract.SentText) bool { return t.Index == i })
}

// textSize measures a message's text, with what its parts refer to as far as this run holds it.
func (w *window) textSize(m *contract.Message, measure func(string) int) int {
	if len(m.Parts) == 0 {
		return measure(m.Text)
	}
	n := 0
	for _, p := range m.Parts {
		text := p.Text
		if p.Ref != nil {
			if inner, err := contract.DecodeMessage(w.a.run.Transcript.Content[p.Ref.SHA]); err == nil {
				text = inner.Text
			}
		}
		n += measure(p.Shown(text))
	}
	return n
}

// cutAt is where what is sent begins from now on.
func (w *window) cutAt(c *plan.Context, refused bool) int {
	n, skip := len(w.messages), w.s.Skip
	for n > 0 && w.messages[n-1] == nil {
		n--
	}
	isResult := func(i int) bool { return w.messages[i] != nil && w.messages[i].Role == contract.RoleTool }
	last := n - max(c.Keep, 1)
	at, tight := last, refused || w.tooMany(c)
	if tight {
		at = w.roomFrom(c, at, refused)
	}
	// Results stay with their calls: with room they are both sent, else they are both left out.
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

// roomFrom is where what is sent may begin for half of it to have room.
func (w *window) roomFrom(c *plan.Context, at int, refused bool) int {
	room := w.limit(c) / 2 * bytesPerToken
	if refused || room == 0 {
		room = w.total(w.s.Skip, bytesOf) / 2
	}
	for ; at > w.s.Skip; at-- {
		if room -= w.size(at-1, bytesOf); room < 0 {
			break
		}
	}
	return at
}

// shorten has summaries stand for long messages, each made once. A policy is applied to what the one before it has made.
func (w *window) shorten(ctx workflow.Context) error {
	longs := w.a.cfg.Longs()
	for i := w.s.Skip; len(longs) > 0 && i < len(w.messages); i++ {
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
				to = i // the summary that there is stands for the message
			}
			text, err := w.summary(ctx, &l.Summary, i, to, short)
			if err != nil {
				return err
			}
			short = strings.ReplaceAll(l.Summary.Template, "{{summary}}", cmp.Or(text, "(this message was too long to be sent or summarized)"))
			size = utf8.RuneCountInString(short)
		}
		if short != "" {
			w.s.Texts = append(w.s.Texts, contract.SentText{Index: i, Text: short})
		}
	}
	return nil
}

// summary has a model summarise messages of the thread. It is "" where they are too long for that model too.
func (w *window) summary(ctx workflow.Context, by *plan.Summary, from, to int, before string) (string, error) {
	r, x := w.a.run, w.a.execution
	in := contract.SummariseInput{Model: modelRef(w.a, by.Model), Script: r.Shared.Script, Node: w.a.who(), Step: x.Step, Instructions: by.Instructions,
		Params: by.Params, From: from, To: to, Before: before, Home: r.Home()}
	in.Base, in.Tail = w.a.thread.Pending()
	w.a.state.Summaries++
	var out contract.SummariseResult
	err := r.CallStep(ctx, x.Journal, contract.HashOf(w.a.thread.Hash, strconv.Itoa(from), strconv.Itoa(to), before), &runtime.Call{
		Activity: contract.ActivitySummariseConversation, Args: []any{&in}, What: "a summary of the conversation", At: x,
		ID: fmt.Sprintf("%s/summary/%d.%d", x.ID, w.a.state.Turn, w.a.state.Summaries), Summary: fmt.Sprintf("%s · summary · %s", w.a.who(), in.Model),
		Options: r.Options(r.Flow.Policy.ModelSeconds), Model: &runtime.ModelCall{Bytes: w.a.thread.Bytes}, Out: &out,
	})
	if tooLong(err) {
		return "", nil
	}
	return strings.TrimSpace(out.Text), err
}

// tooLong reports whether a model found what it was sent too long.
func tooLong(err error) bool {
	return err != nil && contract.FailureOf(err).Class == contract.ClassContextLength
}
