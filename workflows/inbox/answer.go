package inbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/argument"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/transcript"
	"weft/workflows/wait"
)

// admit decodes and validates an answer. It returns an error if its shape or size is invalid, or if it answers no open request.
func (b *Inbox) admit(kind string, raw json.RawMessage) (*contract.Answered, error) {
	const remedy = "store the data elsewhere and pass a reference to it"
	if len(raw) > maxAnswer {
		return nil, contract.Failf(contract.ClassTooLarge, remedy, "the answer is %d bytes, at most %d are allowed", len(raw), maxAnswer)
	}
	a, err := readAnswer(kind, raw)
	if err != nil {
		return nil, err
	}
	// Characters that a client sends unescaped may take six bytes in the payload for the waiting run.
	if n, err := contract.Size(a.Reply); err != nil || n > maxAnswer+contract.Envelope {
		return nil, contract.Failf(contract.ClassTooLarge, remedy, "the answer takes %d bytes in a payload, at most %d are allowed", n, maxAnswer)
	}
	return a, b.checkOpen(a)
}

// checkOpen returns an error if the answered request is not open, or was answered differently.
func (b *Inbox) checkOpen(a *contract.Answered) error {
	id := a.Reply.ID
	if id == "" {
		return b.checkRoom(a.Reply.Message)
	}
	const remedy = "check the run's status; "
	switch old := b.findAnswered(id); {
	case old == nil:
	case old.Hash == a.Hash:
		return nil
	case old.Expired:
		return contract.Failf(contract.ClassAlreadyAnswered, remedy+"a late answer has no effect",
			"the request %q had no answer in time and was closed at %s", id, old.At.Format(time.RFC3339))
	default:
		return contract.Failf(contract.ClassAlreadyAnswered, remedy+"an answer cannot be changed",
			"the request %q was answered differently at %s", id, old.At.Format(time.RFC3339))
	}
	i := b.index(id)
	if i < 0 {
		open := cmp.Or(textutil.ListNames(contract.RequestIDs(b.Requests)), "none")
		return contract.Failf(contract.ClassUnknownRequest, "take the id from the run's status", "no request has the id %q; open: %s", textutil.Cut(id, 200), open)
	}
	if kind := b.Requests[i].Kind; kind != a.Kind {
		return contract.Failf(contract.ClassBadRequest, "send "+kind+": "+shapes[kind].full, "the request %q is of kind %s and cannot be answered by %s", id, kind, a.Kind)
	}
	return nil
}

// checkRoom returns an error if a message is too long, there are too many unread ones, or its node does not exist.
func (b *Inbox) checkRoom(m *contract.MessageAnswer) error {
	own := messageSize(&contract.Inbound{Text: m.Text, Node: m.Node})
	waiting := slices.Clone(b.run.Requests.UnreadMessages)
	for _, g := range b.assigned { // messages at branches count, too: branches return those that they have not read
		waiting = append(waiting, g.message)
	}
	n, all := len(waiting), own
	for i := range waiting {
		all += messageSize(&waiting[i])
	}
	switch {
	case len(m.Text) > runtime.MaxMessage:
		return contract.Failf(contract.ClassTooLarge, "", "the message is %d bytes, at most %d are allowed", len(m.Text), runtime.MaxMessage)
	case own > runtime.MaxUnreadSize:
		return contract.Failf(contract.ClassTooLarge, "", "the message takes %d bytes in a payload, at most %d are allowed", own, runtime.MaxUnreadSize)
	case n >= runtime.MaxUnread || all > runtime.MaxUnreadSize:
		return contract.Failf(contract.ClassTooLarge, "wait until an agent has read them", "%d messages are already unread, or assigned to running branches", n)
	}
	return b.checkNode(m)
}

// checkNode returns an error if a message is addressed to a node that does not exist.
func (b *Inbox) checkNode(m *contract.MessageAnswer) error {
	if _, found := b.host.FindNode(m.Node); m.Node == "" || found {
		return nil
	}
	return contract.Failf(contract.ClassBadRequest, "name one of the flow's agents, or omit node",
		"the flow has no node %q that can receive a message", textutil.Cut(m.Node, 200))
}

// answer processes an admitted answer. If the answer does not match the tool's schema, the request remains open.
func (b *Inbox) answer(ctx workflow.Context, a *contract.Answered, update string) (*contract.Receipt, error) {
	if a.Reply.ID == "" {
		return b.takeMessage(ctx, a, update)
	}
	if err := b.check(ctx, a); err != nil {
		return nil, err
	}
	// Another answer may have arrived during the check.
	if err := b.checkOpen(a); err != nil {
		return nil, err
	}
	if i := b.index(a.Reply.ID); i >= 0 {
		if c := a.Reply.Confirm; c != nil && c.Remember {
			b.remember(&b.Requests[i], c)
		}
		b.settle(ctx, i, *a)
	}
	return &contract.Receipt{ID: a.Reply.ID, Status: "accepted"}, nil
}

// check validates an answer against the tool's schema, in an activity because schemas are untrusted.
func (b *Inbox) check(ctx workflow.Context, a *contract.Answered) error {
	i := b.index(a.Reply.ID)
	var in contract.ValidateAnswerInput
	if a.Reply.ToolResult != nil {
		in.Result = a.Reply.ToolResult.Result
	}
	if a.Reply.Confirm != nil {
		in.Arguments = a.Reply.Confirm.Arguments
	}
	if i < 0 || b.Requests[i].Catalogue == nil || len(in.Arguments)+len(in.Result) == 0 {
		return nil
	}
	in.Catalogue, in.Name = *b.Requests[i].Catalogue, b.Requests[i].Name
	var out contract.ValidateAnswerResult
	err := b.run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityValidateAnswer, Args: []any{&in}, What: "the answer",
		Summary: "check the answer to " + a.Reply.ID, Options: runtime.CheckOptions, Local: runtime.LocalBytes, Out: &out})
	if err == nil && len(out.Errors) > 0 {
		f := contract.Failf(contract.ClassSchema, "correct the answer and send it again; the request is still open",
			"the answer to %q does not match the schema of the tool %q: %s", a.Reply.ID, in.Name, contract.ErrorList(out.Errors, "; "))
		f.Errors = out.Errors
		return f
	}
	return err
}

// takeMessage processes a message without a request id: it answers the oldest open question or waits for
// the next model call. update is the id of its Update, or "" if it was sent by signal. The server deduplicates Updates within a run,
// but not across continue-as-new.
func (b *Inbox) takeMessage(ctx workflow.Context, a *contract.Answered, update string) (*contract.Receipt, error) {
	m := a.Reply.Message
	out := &contract.Receipt{ID: "message", Status: "accepted"}
	if m.Key != "" {
		out.ID, update = "message:"+m.Key, "" // the key identifies the message
		if old := b.findAnswered(out.ID); old != nil && old.Hash == a.Hash {
			return out, nil
		} else if old != nil {
			return nil, contract.Failf(contract.ClassAlreadyAnswered, "give every message a unique key", "another message has the key %q", textutil.Cut(m.Key, 200))
		}
		b.record(ctx, contract.Answered{ID: out.ID, Kind: contract.RequestMessage, Hash: a.Hash, Author: a.Author})
	} else if update != "" {
		update = contract.SHA([]byte(update + "\n" + a.Hash))[:16]
		if slices.Contains(b.seen, update) {
			return out, nil
		}
		b.seen = append(b.seen, update)
		b.seen = b.seen[max(0, len(b.seen)-maxAnswered):]
	}
	asks := func(q contract.Request) bool {
		return q.Kind == contract.RequestMessage && (m.Node == "" || m.Node == q.Node)
	}
	if i := slices.IndexFunc(b.Requests, asks); i >= 0 {
		out.ID = b.Requests[i].ID
		b.settle(ctx, i, *a)
		return out, nil
	}
	b.seq++
	seq := b.seq
	b.run.Requests.UnreadMessages = append(b.run.Requests.UnreadMessages, contract.Inbound{Seq: seq, Text: m.Text, Node: m.Node, Author: m.Author})
	b.assign(ctx)
	b.host.Changed(ctx)
	if m.Node == "" {
		return out, nil
	}
	// The message may have arrived before the flow was known.
	if err := wait.Until(ctx, func() bool {
		known, _ := b.host.FindNode(m.Node)
		return known
	}); err != nil {
		return nil, err
	}
	if err := b.checkNode(m); err != nil {
		b.run.Requests.UnreadMessages = slices.DeleteFunc(b.run.Requests.UnreadMessages, func(i contract.Inbound) bool { return i.Seq == seq })
		b.answered = slices.DeleteFunc(b.answered, func(a contract.Answered) bool { return a.ID == out.ID })
		b.seen = slices.DeleteFunc(b.seen, func(s string) bool { return s == update })
		return nil, err
	}
	return out, nil
}

// readAnswer decodes an answer strictly: a misspelt field must not be ignored.
func readAnswer(kind string, raw json.RawMessage) (*contract.Answered, error) {
	v, _ := textutil.DecodeExact(raw)
	canonical, _ := json.Marshal(v) // a repeated answer may differ in the order of fields and in white space
	a := &contract.Answered{Kind: kind, Hash: contract.SHA(canonical), Reply: &contract.Reply{}}
	err := decodeReply(raw, a)
	switch m := a.Reply.Message; {
	case err != nil:
	case a.Reply.ID == "" && m == nil:
		err = errors.New("id is missing")
	case plan.Depth(raw) > transcript.MaxDepth || len(a.By)+len(a.OnBehalfOf) > runtime.MaxName || m != nil && len(m.Key) > runtime.MaxName:
		err = fmt.Errorf("it is nested more than %d levels deep, or by or key is longer than %d bytes", transcript.MaxDepth, runtime.MaxName)
	}
	if err != nil {
		return nil, contract.Failf(contract.ClassBadRequest, "send "+shapes[kind].full, "invalid answer of kind %s: %v", kind, err)
	}
	return a, nil
}

// decodeReply decodes an answer of its kind, and validates its fields.
func decodeReply(raw json.RawMessage, a *contract.Answered) error {
	r := a.Reply
	switch a.Kind {
	case contract.RequestMessage:
		m, err := decode(raw, &r.Message)
		r.ID, a.Author = m.ID, m.Author
		if err == nil && m.Text == "" {
			err = errors.New("text is empty")
		}
		return err
	case contract.RequestToolResult:
		t, err := decode(raw, &r.ToolResult)
		r.ID, a.Author = t.ID, t.Author
		if err == nil && (len(t.Result) > 0) == (t.Error != "") {
			err = errors.New("exactly one of result and error is required")
		}
		return err
	case contract.RequestConfirm:
		c, err := decode(raw, &r.Confirm)
		r.ID, a.Author = c.ID, c.Author
		switch {
		case err != nil:
		case c.Approve == nil:
			err = errors.New("approve is missing, expected true or false")
		case len(c.Arguments) > 0 && c.Arguments[0] != '{':
			err = fmt.Errorf("arguments must be an object, got %s", textutil.Cut(string(c.Arguments), 100))
		case len(c.Arguments) > 0 && !*c.Approve:
			err = fmt.Errorf("arguments %s are set, but approve is false; set approve to true or remove arguments", textutil.Cut(string(c.Arguments), 100))
		}
		return err
	}
	t, err := decode(raw, &r.Retry)
	r.ID, a.Author = t.ID, t.Author
	return err
}

func decode[T any](raw json.RawMessage, to **T) (*T, error) {
	*to = new(T)
	return *to, argument.DecodeStrict(raw, *to)
}

// Example returns JSON that answers a request in the Web UI's forms, for a cell of a Markdown table.
func Example(q *contract.Request) string {
	id, _ := json.Marshal(q.ID)
	return inTable.Replace(`{"id": ` + string(id) + shapes[q.Kind].example + "}")
}

// inTable escapes characters that would end a cell or a code span, as JSON escapes.
var inTable = strings.NewReplacer("|", `\u007c`, "`", `\u0060`)
