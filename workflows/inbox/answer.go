package inbox

import (
	"bytes"
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
	"weft/workflows/wait"
)

// admit looks at an answer before it is taken: its shape, its size, and whether there is
// something that it answers.
func (d *Inbox) admit(kind string, raw json.RawMessage) error {
	if len(raw) > maxAnswer {
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the answer is %d bytes, at most %d are taken", len(raw), maxAnswer),
			Remedy: "keep the data elsewhere and pass a reference to it"}
	}
	a, err := readAnswer(kind, raw)
	if err != nil {
		return err
	}
	// A client may write characters as they are that take six bytes on their way to the run that
	// waits.
	if n, err := runtime.Size(a.reply); err != nil || n > maxAnswer+contract.Envelope {
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the answer takes %d bytes in a payload, at most %d are taken", n, maxAnswer),
			Remedy: "keep the data elsewhere and pass a reference to it"}
	}
	if a.id == "" {
		return d.roomFor(a.message)
	}
	if old := d.find(a.id); old != nil {
		if old.Hash == a.hash {
			return nil
		}
		if old.Expired {
			return &contract.Failure{Class: contract.ClassAlreadyAnswered, Text: fmt.Sprintf("the request %q had no answer in time and was closed at %s", a.id, old.At.Format(time.RFC3339)),
				Remedy: "look at the run's status; an answer that comes late changes nothing"}
		}
		return &contract.Failure{Class: contract.ClassAlreadyAnswered, Text: fmt.Sprintf("the request %q was answered differently at %s", a.id, old.At.Format(time.RFC3339)),
			Remedy: "look at the run's status; an answer cannot be taken back"}
	}
	i := d.index(a.id)
	if i < 0 {
		return &contract.Failure{Class: contract.ClassUnknownRequest, Text: fmt.Sprintf("no request has the id %q; open: %s", textutil.Cut(a.id, 200), openNames(d)),
			Remedy: "take the id from the run's status"}
	}
	if want := d.Requests[i].Kind; want != kind {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the request %q is of kind %s and is not answered by %s", a.id, want, kind),
			Remedy: "send " + want + ": " + updateText[want]}
	}
	return nil
}

// openNames lists the open requests for a message.
func openNames(d *Inbox) string {
	var out []string
	for i := range d.Requests {
		out = append(out, d.Requests[i].ID)
	}
	if len(out) == 0 {
		return "none"
	}
	return textutil.Some(out)
}

func (d *Inbox) roomFor(m *contract.MessageAnswer) error {
	// What branches have counts too, read or not: they bring back what they have not read.
	n, all := d.givenSize()
	own := runtime.InPayload(m.Text) + len(m.Node)
	n, all = n+len(d.UnreadMessages), all+own
	for i := range d.UnreadMessages {
		all += runtime.InPayload(d.UnreadMessages[i].Text) + len(d.UnreadMessages[i].Node)
	}
	switch {
	case len(m.Text) > runtime.MaxMessage:
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the message is %d bytes, at most %d are taken", len(m.Text), runtime.MaxMessage)}
	case own > runtime.MaxUnreadSize:
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the message takes %d bytes in a payload, at most %d are taken", own, runtime.MaxUnreadSize)}
	case n >= runtime.MaxUnread || all > runtime.MaxUnreadSize:
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("%d messages are unread already, or with branches that still run", n),
			Remedy: "wait until an agent has read them"}
	}
	return d.placed(m)
}

// placed refuses a message for a node that there is not.
func (d *Inbox) placed(m *contract.MessageAnswer) error {
	if _, found := d.host.Knows(m.Node); m.Node == "" || found {
		return nil
	}
	return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the flow has no node %q that could get a message", textutil.Cut(m.Node, 200)),
		Remedy: "name one of the flow's agents, or leave node out"}
}

// answer takes an answer that was admitted. What the tool's schema says of it is checked by
// an activity, because schemas are untrusted; a wrong one leaves the request open.
func (d *Inbox) answer(ctx workflow.Context, kind string, raw json.RawMessage, update string) (*contract.Receipt, error) {
	a, err := readAnswer(kind, raw)
	if err != nil {
		return nil, err
	}
	if update != "" {
		a.update = contract.SHA([]byte(update + "\n" + a.hash))[:16]
	}
	if a.id == "" {
		return d.take(ctx, a)
	}
	if err := d.check(ctx, a); err != nil {
		return nil, err
	}
	// While it was checked another one may have come.
	if err := d.admit(kind, raw); err != nil {
		return nil, err
	}
	if i := d.index(a.id); i >= 0 {
		req := d.Requests[i]
		if c := a.reply.Confirm; c != nil && c.Remember {
			d.remember(&req, c)
		}
		d.settle(ctx, i, a.reply, a.hash, a.author)
	}
	return &contract.Receipt{ID: a.id, Status: "accepted"}, nil
}

// check asks an activity whether an answer is of the shape that the tool declares.
func (d *Inbox) check(ctx workflow.Context, a *sent) error {
	i := d.index(a.id)
	if i < 0 || d.Requests[i].Catalogue == nil || len(a.check.Arguments)+len(a.check.Result) == 0 {
		return nil
	}
	req := &d.Requests[i]
	in := a.check
	in.Catalogue, in.Name = *req.Catalogue, req.Name
	var out contract.ValidateAnswerResult
	err := d.run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityValidateAnswer, Args: []any{&in}, What: "the answer", Summary: "check the answer to " + a.id,
		Options: runtime.CheckOptions, Local: runtime.LocalBytes, Out: &out})
	if err != nil {
		return err
	}
	if len(out.Errors) > 0 {
		return &contract.Failure{Class: contract.ClassSchema, Errors: out.Errors,
			Text:   fmt.Sprintf("the answer to %q is not what the tool %q declares: %s", a.id, req.Name, contract.ErrorList(out.Errors, "; ")),
			Remedy: "correct the answer and send it again; the request is still open"}
	}
	return nil
}

// take keeps a message that answers no request by id: it answers the oldest question that is
// open, or else waits for the next model call.
func (d *Inbox) take(ctx workflow.Context, a *sent) (*contract.Receipt, error) {
	m := a.message
	id := "message"
	if m.Key != "" {
		id = "message:" + m.Key
		if old := d.find(id); old != nil {
			if old.Hash != a.hash {
				return nil, &contract.Failure{Class: contract.ClassAlreadyAnswered, Text: fmt.Sprintf("another message has the key %q", textutil.Cut(m.Key, 200)),
					Remedy: "give every message a key of its own"}
			}
			return &contract.Receipt{ID: id, Status: "accepted"}, nil
		}
		d.record(ctx, contract.Answered{ID: id, Kind: contract.RequestMessage, Hash: a.hash, Author: a.author})
	}
	update := a.update
	if m.Key != "" {
		update = "" // the key says as much
	}
	if slices.Contains(d.seen, update) {
		return &contract.Receipt{ID: id, Status: "accepted"}, nil
	}
	if update != "" {
		d.seen = append(d.seen, update)
		d.seen = d.seen[max(0, len(d.seen)-maxAnswered):]
	}
	for i := range d.Requests {
		if q := &d.Requests[i]; q.Kind == contract.RequestMessage && (m.Node == "" || m.Node == q.Node) {
			id = q.ID
			d.settle(ctx, i, contract.Reply{ID: q.ID, Message: m}, a.hash, a.author)
			return &contract.Receipt{ID: id, Status: "accepted"}, nil
		}
	}
	d.seq++
	seq := d.seq
	d.UnreadMessages = append(d.UnreadMessages, contract.Inbound{Seq: seq, Text: m.Text, Node: m.Node, Author: m.Author})
	d.assign(ctx)
	d.host.Changed(ctx)
	ready := func() bool {
		known, _ := d.host.Knows(m.Node)
		return known
	}
	if m.Node == "" || ready() {
		return &contract.Receipt{ID: id, Status: "accepted"}, nil
	}
	// The message came before the flow was known.
	if err := wait.Until(ctx, ready); err != nil {
		return nil, err
	}
	if err := d.placed(m); err != nil {
		d.UnreadMessages = slices.DeleteFunc(d.UnreadMessages, func(i contract.Inbound) bool { return i.Seq == seq })
		d.answered = slices.DeleteFunc(d.answered, func(a contract.Answered) bool { return a.ID == id })
		d.seen = slices.DeleteFunc(d.seen, func(s string) bool { return s == update })
		return nil, err
	}
	return &contract.Receipt{ID: id, Status: "accepted"}, nil
}

// sent is an answer as it was sent.
type sent struct {
	id, hash string
	author   contract.Author
	reply    contract.Reply
	message  *contract.MessageAnswer
	check    contract.ValidateAnswerInput
	// update names the Update that it came with; "" where it came by signal. Within a run the server
	// knows an Update again, but not in the run that continues it.
	update string
}

// readAnswer decodes an answer strictly: a misspelt field would be a silent default.
func readAnswer(kind string, raw json.RawMessage) (*sent, error) {
	a := &sent{hash: contract.SHA(canonical(raw))}
	err := a.read(kind, raw)
	switch {
	case err != nil:
	case a.id == "" && kind != contract.RequestMessage:
		err = errors.New("id is missing")
	case plan.Depth(raw) > runtime.MaxDepth || len(a.author.By)+len(a.author.OnBehalfOf) > runtime.MaxName || a.message != nil && len(a.message.Key) > runtime.MaxName:
		err = fmt.Errorf("it nests more than %d deep, or by or key is longer than %d bytes", runtime.MaxDepth, runtime.MaxName)
	}
	if err != nil {
		return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the answer of kind %s: %v", kind, err),
			Remedy: "send " + updateText[kind]}
	}
	a.reply.ID = a.id
	return a, nil
}

// read decodes an answer of a kind, and says what is wrong with it by itself.
func (a *sent) read(kind string, raw json.RawMessage) error {
	switch kind {
	case contract.RequestMessage:
		var m contract.MessageAnswer
		err := argument.Strictly(raw, &m)
		a.id, a.author, a.message, a.reply.Message = m.ID, m.Author, &m, &m
		if err == nil && m.Text == "" {
			err = errors.New("text is empty")
		}
		return err
	case contract.RequestToolResult:
		var t contract.ToolResultAnswer
		err := argument.Strictly(raw, &t)
		a.id, a.author, a.reply.ToolResult, a.check.Result = t.ID, t.Author, &t, t.Result
		if err == nil && (len(t.Result) > 0) == (t.Error != "") {
			err = errors.New("want exactly one of result and error")
		}
		return err
	case contract.RequestConfirm:
		var c contract.ConfirmAnswer
		err := argument.Strictly(raw, &c)
		a.id, a.author, a.reply.Confirm, a.check.Arguments = c.ID, c.Author, &c, c.Arguments
		switch {
		case err != nil:
		case c.Approve == nil:
			err = errors.New("approve is missing, want true or false")
		case len(c.Arguments) > 0 && !bytes.HasPrefix(bytes.TrimSpace(c.Arguments), []byte("{")):
			err = fmt.Errorf("arguments is no object: %s", textutil.Cut(string(c.Arguments), 100))
		case len(c.Arguments) > 0 && !*c.Approve:
			err = fmt.Errorf("arguments %s are those of a call that is allowed, but approve is false; leave out one of them", textutil.Cut(string(c.Arguments), 100))
		}
		return err
	}
	var t contract.RetryAnswer
	err := argument.Strictly(raw, &t)
	a.id, a.author, a.reply.Retry = t.ID, t.Author, &t
	return err
}

// Example is the JSON with which a request is answered from the Web UI's forms. It stands in a cell of a Markdown table.
func Example(q *contract.Request) string {
	id, err := json.Marshal(q.ID)
	if err != nil {
		return err.Error()
	}
	rest := `, "text": "…"`
	switch q.Kind {
	case contract.RequestConfirm:
		rest = `, "approve": true`
	case contract.RequestRetry:
		rest = ""
	case contract.RequestToolResult:
		rest = `, "result": "…"`
	}
	return inTable.Replace(`{"id": ` + string(id) + rest + "}")
}

// inTable writes what would end a cell, or code in one, so that it stays the same JSON.
var inTable = strings.NewReplacer("|", `\u007c`, "`", `\u0060`)

// canonical is JSON without what does not count, blanks and the order of keys, so that the same
// answer has the same hash: a program may write an object in another order each time.
func canonical(raw json.RawMessage) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}
