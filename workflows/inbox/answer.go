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

// admit reads an answer before it is taken. It refuses one of a wrong shape or size, and one that answers nothing.
func (d *Inbox) admit(kind string, raw json.RawMessage) (*contract.Answered, error) {
	const remedy = "keep the data elsewhere and pass a reference to it"
	if len(raw) > maxAnswer {
		return nil, contract.Failf(contract.ClassTooLarge, remedy, "the answer is %d bytes, at most %d are allowed", len(raw), maxAnswer)
	}
	a, err := readAnswer(kind, raw)
	if err != nil {
		return nil, err
	}
	// A client may write characters as they are that take six bytes on their way to the run that waits.
	if n, err := contract.Size(a.Reply); err != nil || n > maxAnswer+contract.Envelope {
		return nil, contract.Failf(contract.ClassTooLarge, remedy, "the answer takes %d bytes in a payload, at most %d are allowed", n, maxAnswer)
	}
	return a, d.fits(a)
}

// fits refuses an answer to what is not open, or is answered otherwise.
func (d *Inbox) fits(a *contract.Answered) error {
	id := a.Reply.ID
	if id == "" {
		return d.roomFor(a.Reply.Message)
	}
	const remedy = "look at the run's status; an answer "
	switch old := d.find(id); {
	case old == nil:
	case old.Hash == a.Hash:
		return nil
	case old.Expired:
		return contract.Failf(contract.ClassAlreadyAnswered, remedy+"that comes late changes nothing",
			"the request %q had no answer in time and was closed at %s", id, old.At.Format(time.RFC3339))
	default:
		return contract.Failf(contract.ClassAlreadyAnswered, remedy+"cannot be taken back",
			"the request %q was answered differently at %s", id, old.At.Format(time.RFC3339))
	}
	i := d.index(id)
	if i < 0 {
		open := cmp.Or(textutil.Some(contract.RequestIDs(d.Requests)), "none")
		return contract.Failf(contract.ClassUnknownRequest, "take the id from the run's status", "no request has the id %q; open: %s", textutil.Cut(id, 200), open)
	}
	if want := d.Requests[i].Kind; want != a.Kind {
		return contract.Failf(contract.ClassBadRequest, "send "+want+": "+shapes[want].whole, "the request %q is of kind %s and is not answered by %s", id, want, a.Kind)
	}
	return nil
}

// roomFor refuses a message that is too long, that the unread ones leave no room for, or for a node that there is not.
func (d *Inbox) roomFor(m *contract.MessageAnswer) error {
	own := messageSize(&contract.Inbound{Text: m.Text, Node: m.Node})
	waiting := slices.Clone(d.run.Requests.UnreadMessages)
	for _, g := range d.given { // what branches have counts too, read or not: they bring back what they have not read
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
		return contract.Failf(contract.ClassTooLarge, "wait until an agent has read them", "%d messages are unread already, or with branches that still run", n)
	}
	return d.placed(m)
}

// placed refuses a message for a node that there is not.
func (d *Inbox) placed(m *contract.MessageAnswer) error {
	if _, found := d.host.Knows(m.Node); m.Node == "" || found {
		return nil
	}
	return contract.Failf(contract.ClassBadRequest, "name one of the flow's agents, or leave node out",
		"the flow has no node %q that could get a message", textutil.Cut(m.Node, 200))
}

// answer takes an answer that was admitted. One that is not what the tool's schema wants leaves the request open.
func (d *Inbox) answer(ctx workflow.Context, a *contract.Answered, update string) (*contract.Receipt, error) {
	if a.Reply.ID == "" {
		return d.take(ctx, a, update)
	}
	if err := d.check(ctx, a); err != nil {
		return nil, err
	}
	// While it was checked another one may have come.
	if err := d.fits(a); err != nil {
		return nil, err
	}
	if i := d.index(a.Reply.ID); i >= 0 {
		if c := a.Reply.Confirm; c != nil && c.Remember {
			d.remember(&d.Requests[i], c)
		}
		d.settle(ctx, i, *a)
	}
	return &contract.Receipt{ID: a.Reply.ID, Status: "accepted"}, nil
}

// check asks an activity, because schemas are untrusted, whether an answer is of the shape that the tool declares.
func (d *Inbox) check(ctx workflow.Context, a *contract.Answered) error {
	i := d.index(a.Reply.ID)
	var in contract.ValidateAnswerInput
	if a.Reply.ToolResult != nil {
		in.Result = a.Reply.ToolResult.Result
	}
	if a.Reply.Confirm != nil {
		in.Arguments = a.Reply.Confirm.Arguments
	}
	if i < 0 || d.Requests[i].Catalogue == nil || len(in.Arguments)+len(in.Result) == 0 {
		return nil
	}
	in.Catalogue, in.Name = *d.Requests[i].Catalogue, d.Requests[i].Name
	var out contract.ValidateAnswerResult
	err := d.run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityValidateAnswer, Args: []any{&in}, What: "the answer",
		Summary: "check the answer to " + a.Reply.ID, Options: runtime.CheckOptions, Local: runtime.LocalBytes, Out: &out})
	if err == nil && len(out.Errors) > 0 {
		f := contract.Failf(contract.ClassSchema, "correct the answer and send it again; the request is still open",
			"the answer to %q is not what the tool %q declares: %s", a.Reply.ID, in.Name, contract.ErrorList(out.Errors, "; "))
		f.Errors = out.Errors
		return f
	}
	return err
}

// take keeps a message that answers no request by id: it answers the oldest question that is
// open, or else waits for the next model call. update names the Update that it came with; "" where it came by signal.
// Within a run the server knows an Update again, but not in the run that continues it.
func (d *Inbox) take(ctx workflow.Context, a *contract.Answered, update string) (*contract.Receipt, error) {
	m := a.Reply.Message
	out := &contract.Receipt{ID: "message", Status: "accepted"}
	if m.Key != "" {
		out.ID, update = "message:"+m.Key, "" // the key says as much
		if old := d.find(out.ID); old != nil && old.Hash == a.Hash {
			return out, nil
		} else if old != nil {
			return nil, contract.Failf(contract.ClassAlreadyAnswered, "give every message a key of its own", "another message has the key %q", textutil.Cut(m.Key, 200))
		}
		d.record(ctx, contract.Answered{ID: out.ID, Kind: contract.RequestMessage, Hash: a.Hash, Author: a.Author})
	} else if update != "" {
		update = contract.SHA([]byte(update + "\n" + a.Hash))[:16]
		if slices.Contains(d.seen, update) {
			return out, nil
		}
		d.seen = append(d.seen, update)
		d.seen = d.seen[max(0, len(d.seen)-maxAnswered):]
	}
	asks := func(q contract.Request) bool {
		return q.Kind == contract.RequestMessage && (m.Node == "" || m.Node == q.Node)
	}
	if i := slices.IndexFunc(d.Requests, asks); i >= 0 {
		out.ID = d.Requests[i].ID
		d.settle(ctx, i, *a)
		return out, nil
	}
	d.seq++
	seq := d.seq
	d.run.Requests.UnreadMessages = append(d.run.Requests.UnreadMessages, contract.Inbound{Seq: seq, Text: m.Text, Node: m.Node, Author: m.Author})
	d.assign(ctx)
	d.host.Changed(ctx)
	if m.Node == "" {
		return out, nil
	}
	// The message may have come before the flow was known.
	if err := wait.Until(ctx, func() bool {
		known, _ := d.host.Knows(m.Node)
		return known
	}); err != nil {
		return nil, err
	}
	if err := d.placed(m); err != nil {
		d.run.Requests.UnreadMessages = slices.DeleteFunc(d.run.Requests.UnreadMessages, func(i contract.Inbound) bool { return i.Seq == seq })
		d.answered = slices.DeleteFunc(d.answered, func(a contract.Answered) bool { return a.ID == out.ID })
		d.seen = slices.DeleteFunc(d.seen, func(s string) bool { return s == update })
		return nil, err
	}
	return out, nil
}

// readAnswer decodes an answer strictly: a misspelt field would be a silent default.
func readAnswer(kind string, raw json.RawMessage) (*contract.Answered, error) {
	v, _ := textutil.DecodeExact(raw)
	canonical, _ := json.Marshal(v) // a program that sends an answer again may write it in another order, with other blanks
	a := &contract.Answered{Kind: kind, Hash: contract.SHA(canonical), Reply: &contract.Reply{}}
	err := read(raw, a)
	switch m := a.Reply.Message; {
	case err != nil:
	case a.Reply.ID == "" && m == nil:
		err = errors.New("id is missing")
	case plan.Depth(raw) > transcript.MaxDepth || len(a.By)+len(a.OnBehalfOf) > runtime.MaxName || m != nil && len(m.Key) > runtime.MaxName:
		err = fmt.Errorf("it nests more than %d deep, or by or key is longer than %d bytes", transcript.MaxDepth, runtime.MaxName)
	}
	if err != nil {
		return nil, contract.Failf(contract.ClassBadRequest, "send "+shapes[kind].whole, "the answer of kind %s: %v", kind, err)
	}
	return a, nil
}

// read decodes an answer of its kind, and says what is wrong with it by itself.
func read(raw json.RawMessage, a *contract.Answered) error {
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
			err = errors.New("want exactly one of result and error")
		}
		return err
	case contract.RequestConfirm:
		c, err := decode(raw, &r.Confirm)
		r.ID, a.Author = c.ID, c.Author
		switch {
		case err != nil:
		case c.Approve == nil:
			err = errors.New("approve is missing, want true or false")
		case len(c.Arguments) > 0 && c.Arguments[0] != '{':
			err = fmt.Errorf("arguments is no object: %s", textutil.Cut(string(c.Arguments), 100))
		case len(c.Arguments) > 0 && !*c.Approve:
			err = fmt.Errorf("arguments %s are those of a call that is allowed, but approve is false; leave out one of them", textutil.Cut(string(c.Arguments), 100))
		}
		return err
	}
	t, err := decode(raw, &r.Retry)
	r.ID, a.Author = t.ID, t.Author
	return err
}

func decode[T any](raw json.RawMessage, to **T) (*T, error) {
	*to = new(T)
	return *to, argument.Strictly(raw, *to)
}

// Example is the JSON with which a request is answered from the Web UI's forms. It stands in a cell of a Markdown table.
func Example(q *contract.Request) string {
	id, _ := json.Marshal(q.ID)
	return inTable.Replace(`{"id": ` + string(id) + shapes[q.Kind].example + "}")
}

// inTable writes what would end a cell, or code in one, so that it stays the same JSON.
var inTable = strings.NewReplacer("|", `\u007c`, "`", `\u0060`)
