package agent

import (
	"cmp"
	"errors"
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

// A conversation is kept whole; what a model is sent of it may be less, see [plan.Context]. What
// that is stands beside the thread, once for each policy, so that it changes seldom and a
// provider's cache holds.

// contextWindow is what of an agent's conversation its model is sent.
type contextWindow struct{ a *agentRun }

func (a *agentRun) window() contextWindow { return contextWindow{a} }

// bytesPerToken is the estimate for what no model has counted yet.
const bytesPerToken = 4

// shown is what the next model call is told of it; nil is everything.
func (w contextWindow) shown() *contract.Sent {
	if len(w.a.cfg.Contexts())+len(w.a.cfg.Longs()) == 0 {
		return nil
	}
	s := *w.a.thread.SentBy(w.a.cfg)
	s.Key, s.Tokens, s.Counted, s.Context = "", 0, 0, 0
	if s.Skip == 0 && s.Texts == nil {
		return nil
	}
	s.Texts = slices.Clone(s.Texts)
	return &s
}

// counted notes what a model counted, and how much it takes.
func (w contextWindow) counted(res *contract.ModelResult) {
	if w.a.cfg.Context == nil || w.a.cfg.Context.Tokens == 0 && res.Context == 0 {
		return
	}
	s := w.a.thread.SentBy(w.a.cfg)
	s.Context = cmp.Or(res.Context, s.Context)
	if res.Usage.Input > 0 {
		s.Tokens, s.Counted = res.Usage.Input+res.Usage.Output, len(w.a.thread.Entries)
	}
}

// limit is how many tokens are sent at most; 0 is any number. A policy that shortens leaves a quarter of the context that a server
// has to the answer.
func (w contextWindow) limit(c *plan.Context, s *contract.Sent) int {
	room := s.Context - s.Context/4
	if room > 0 && c.How != plan.ContextFail && (c.Tokens == 0 || c.Tokens > room) {
		return room
	}
	return c.Tokens
}

// leftOut is how many messages of the conversation the model no longer gets.
func (w contextWindow) leftOut() int {
	n := 0
	for _, s := range w.a.thread.Sent {
		n = max(n, s.Skip)
	}
	return n
}

// fit makes what is sent fit. refused says that a model found it too long.
func (w contextWindow) fit(ctx workflow.Context, refused bool) (changed bool, err error) {
	contexts, longs := w.a.cfg.Contexts(), w.a.cfg.Longs()
	if len(contexts)+len(longs) == 0 {
		return false, nil
	}
	s := w.a.thread.SentBy(w.a.cfg)
	if err := w.shorten(ctx, s, longs); err != nil {
		return false, err
	}
	for _, c := range contexts {
		cut, err := w.cut(ctx, c, s, refused)
		if err != nil {
			return false, err
		}
		changed, refused = changed || cut, refused && !cut
	}
	return changed, nil
}

// cut leaves out what a policy leaves out. refused says that a model found what is sent too long.
func (w contextWindow) cut(ctx workflow.Context, c *plan.Context, s *contract.Sent, refused bool) (changed bool, err error) {
	if !refused && !w.over(c, s) {
		return false, nil
	}
	if c.How == plan.ContextFail {
		if refused {
			return false, nil
		}
		return false, w.a.run.Fail(w.a.execution, contract.ClassContextLength, "set the policy truncate or summarise, or raise its threshold",
			"the conversation is about %d tokens in %d messages, more than the agent's policy sends", w.tokens(s), len(w.a.thread.Entries))
	}
	upto := w.cutAt(c, s, refused)
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
func (w contextWindow) over(c *plan.Context, s *contract.Sent) bool {
	messages := 0
	if s.Skip > 0 {
		messages++
	}
	for i := s.Skip; c.Messages > 0 && i < len(w.a.thread.Entries); i++ {
		if w.roleAt(i) != "" {
			messages++
		}
	}
	return c.Messages > 0 && messages > c.Messages || c.Characters > 0 && w.characters(s, s.Skip)+utf8.RuneCountInString(s.Note) > c.Characters ||
		w.tooMany(c, s)
}

// tooMany reports whether there are more tokens than are sent.
func (w contextWindow) tooMany(c *plan.Context, s *contract.Sent) bool {
	limit := w.limit(c, s)
	return limit > 0 && w.tokens(s) > limit
}

// tokens estimates what would be sent: what the model counted last, and what came since.
func (w contextWindow) tokens(s *contract.Sent) int {
	from, n := s.Skip, len(w.a.cfg.System)+len(s.Note)
	known := 0
	if s.Tokens > 0 && s.Counted <= len(w.a.thread.Entries) {
		from, n, known = s.Counted, 0, s.Tokens
	}
	for i := from; i < len(w.a.thread.Entries); i++ {
		n += w.size(s, i, func(text string) int { return len(text) })
	}
	return known + (n+bytesPerToken-1)/bytesPerToken
}

// characters counts those of the messages from a place on.
func (w contextWindow) characters(s *contract.Sent, from int) int {
	n := 0
	for i := from; i < len(w.a.thread.Entries); i++ {
		n += w.size(s, i, utf8.RuneCountInString)
	}
	return n
}

// size measures one message as it would be sent.
func (w contextWindow) size(s *contract.Sent, i int, measure func(string) int) int {
	m, err := contract.DecodeMessage(w.a.thread.Entries[i].Raw)
	if err != nil || m.Aside {
		return 0
	}
	n := 0
	if k := slices.IndexFunc(s.Texts, func(t contract.SentText) bool { return t.Index == i }); k >= 0 {
		n = measure(s.Texts[k].Text)
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

// textSize measures a message's text, with what its parts refer to as far as this run holds it.
func (w contextWindow) textSize(m *contract.Message, measure func(string) int) int {
	if len(m.Parts) == 0 {
		return measure(m.Text)
	}
	n := 0
	for _, p := range m.Parts {
		n += measure(p.Text)
		if p.Ref != nil && w.a.run.Transcript.Has(p.Ref.SHA) {
			if inner, err := contract.DecodeMessage(w.a.run.Transcript.Content[p.Ref.SHA]); err == nil {
				n += measure(inner.Text)
			}
		}
	}
	return n
}

// cutAt is where what is sent begins from now on.
func (w contextWindow) cutAt(c *plan.Context, s *contract.Sent, refused bool) int {
	n := len(w.a.thread.Entries)
	for n > 0 && w.roleAt(n-1) == "" {
		n--
	}
	at := n - max(c.Keep, 1)
	tight := refused || w.tooMany(c, s)
	if tight {
		at = w.roomFrom(c, s, at, refused)
	}
	// Results stay with their calls: with room they are both sent, else they are both left out.
	right := max(at, s.Skip+1)
	for right < n && w.roleAt(right) == contract.RoleTool {
		right++
	}
	if tight && right <= n-max(c.Keep, 1) {
		return right
	}
	left := max(at, s.Skip)
	for left > s.Skip && w.roleAt(left) == contract.RoleTool {
		left--
	}
	if left == s.Skip && tight && right < n {
		return right
	}
	return left
}

// roomFrom is where what is sent may begin for half of it to have room.
func (w contextWindow) roomFrom(c *plan.Context, s *contract.Sent, at int, refused bool) int {
	bytes := func(i int) int { return w.size(s, i, func(text string) int { return len(text) }) }
	room := w.limit(c, s) / 2 * bytesPerToken
	if refused || room == 0 {
		all := 0
		for i := s.Skip; i < len(w.a.thread.Entries); i++ {
			all += bytes(i)
		}
		room = all / 2
	}
	for ; at > s.Skip; at-- {
		if room -= bytes(at - 1); room < 0 {
			break
		}
	}
	return at
}

// roleAt is the role of a message, "" of one that no model is sent.
func (w contextWindow) roleAt(i int) string {
	m, err := contract.DecodeMessage(w.a.thread.Entries[i].Raw)
	if err != nil || m.Aside {
		return ""
	}
	return m.Role
}

// shorten has summaries stand for long messages, each made once. What one policy makes of a message
// is what the next one finds.
func (w contextWindow) shorten(ctx workflow.Context, s *contract.Sent, longs []*plan.Long) error {
	for i := s.Skip; len(longs) > 0 && i < len(w.a.thread.Entries); i++ {
		if slices.ContainsFunc(s.Texts, func(t contract.SentText) bool { return t.Index == i }) {
			continue
		}
		m, err := contract.DecodeMessage(w.a.thread.Entries[i].Raw)
		if err != nil || m.Aside {
			continue
		}
		short, err := w.shortened(ctx, longs, i, m)
		if err != nil {
			return err
		}
		if short != "" {
			s.Texts = append(s.Texts, contract.SentText{Index: i, Text: short})
		}
	}
	return nil
}

// shortened is what stands for a message; empty where it is short enough for all policies.
func (w contextWindow) shortened(ctx workflow.Context, longs []*plan.Long, i int, m *contract.Message) (string, error) {
	short, size := "", w.textSize(m, utf8.RuneCountInString)
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
			return "", err
		}
		if text == "" {
			text = "(this message was too long to be sent or summarized)"
		}
		short = strings.ReplaceAll(l.Summary.Template, "{{summary}}", text)
		size = utf8.RuneCountInString(short)
	}
	return short, nil
}

// summary has a model summarise messages of the thread. It is "" where they are too long for that
// model too.
func (w contextWindow) summary(ctx workflow.Context, by *plan.Summary, from, to int, before string) (string, error) {
	in := contract.SummariseInput{Model: cmp.Or(by.Model, modelRef(w.a)), Script: w.a.run.Shared.Script, Node: w.a.who(), Step: w.a.execution.Step, Instructions: by.Instructions,
		Params: by.Params, From: from, To: to, Before: before, Home: w.a.run.Home()}
	if contract.ScriptedAll(w.a.run.Shared.Model) {
		in.Model = w.a.run.Shared.Model
	}
	in.Base, in.Tail = w.a.thread.Pending()
	in.Base.Workflow, in.Base.Run = "", ""
	w.a.state.Summaries++
	var out contract.SummariseResult
	err := w.a.run.CallStep(ctx, w.a.execution.Journal, runtime.HashOf(w.a.thread.Hash, strconv.Itoa(from), strconv.Itoa(to), before), &runtime.Call{
		Activity: contract.ActivitySummariseConversation, Args: []any{&in}, What: "a summary of the conversation", At: w.a.execution,
		ID: fmt.Sprintf("%s/summary/%d.%d", w.a.execution.ID, w.a.state.Turn, w.a.state.Summaries), Summary: fmt.Sprintf("%s · summary · %s", w.a.who(), in.Model),
		Options: w.a.run.Options(w.a.run.Flow.Policy.ModelSeconds), Model: &runtime.ModelCall{Bytes: w.a.thread.Bytes}, Out: &out,
	})
	if err != nil {
		if !errors.Is(err, runtime.ErrYield) && !contract.Cancelled(err) && contract.FailureOf(err).Class == contract.ClassContextLength {
			return "", nil
		}
		return "", err
	}
	return strings.TrimSpace(out.Text), nil
}
