package workflows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// admit looks at an answer before it is taken: its shape, its size, and whether there is
// something that it answers.
func (d *inbox) admit(kind string, raw json.RawMessage) error {
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
	if n, err := size(a.reply); err != nil || n > maxAnswer+envelope {
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
		return &contract.Failure{Class: contract.ClassUnknownRequest, Text: fmt.Sprintf("no request has the id %q; open: %s", cut(a.id, 200), d.names()),
			Remedy: "take the id from the run's status"}
	}
	if want := d.requests[i].Kind; want != kind {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the request %q is of kind %s and is not answered by %s", a.id, want, kind),
			Remedy: "send " + want + ": " + updateText[want]}
	}
	return nil
}

// names lists the open requests for a message.
func (d *inbox) names() string {
	var out []string
	for i := range d.requests {
		out = append(out, d.requests[i].ID)
	}
	if len(out) == 0 {
		return "none"
	}
	return some(out)
}

func (d *inbox) roomFor(m *contract.MessageAnswer) error {
	// What branches have counts too, read or not: they bring back what they have not read.
	n, all := d.given()
	own := inPayload(m.Text) + len(m.Node)
	n, all = n+len(d.unread), all+own
	for i := range d.unread {
		all += inPayload(d.unread[i].Text) + len(d.unread[i].Node)
	}
	switch {
	case len(m.Text) > maxMessage:
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the message is %d bytes, at most %d are taken", len(m.Text), maxMessage)}
	case own > maxInboxSize:
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the message takes %d bytes in a payload, at most %d are taken", own, maxInboxSize)}
	case n >= maxInbox || all > maxInboxSize:
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("%d messages are unread already, or with branches that still run", n),
			Remedy: "wait until an agent has read them"}
	}
	return d.placed(m)
}

// inPayload is how many bytes a text takes in a payload, where some characters are escaped.
func inPayload(text string) int {
	n, err := size(text)
	if err != nil {
		return len(text)
	}
	return n
}

// placed refuses a message for a node that there is not.
func (d *inbox) placed(m *contract.MessageAnswer) error {
	if m.Node == "" || d.known(m.Node) {
		return nil
	}
	return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the flow has no node %q that could get a message", cut(m.Node, 200)),
		Remedy: "name one of the flow's agents, or leave node out"}
}

// answer takes an answer that was admitted. What the tool's schema says of it is checked by
// an activity, because schemas are untrusted; a wrong one leaves the request open.
func (d *inbox) answer(ctx workflow.Context, kind string, raw json.RawMessage, update string) (*contract.Receipt, error) {
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
		req := d.requests[i]
		if c := a.reply.Confirm; c != nil && c.Remember {
			d.remember(&req, c)
		}
		d.settle(ctx, i, a.reply, a.hash, a.by)
	}
	return &contract.Receipt{ID: a.id, Status: "accepted"}, nil
}

// check asks an activity whether an answer is of the shape that the tool declares.
func (d *inbox) check(ctx workflow.Context, a *sent) error {
	i := d.index(a.id)
	if i < 0 || d.requests[i].Catalogue == nil || len(a.check.Arguments)+len(a.check.Result) == 0 {
		return nil
	}
	req := &d.requests[i]
	in := a.check
	in.Catalogue, in.Name = *req.Catalogue, req.Name
	var out contract.ValidateAnswerResult
	err := d.r.invoke(ctx, &call{activity: contract.ActivityValidateAnswer, args: []any{&in}, what: "the answer", summary: "check the answer to " + a.id,
		options: checkOptions, out: &out})
	if err != nil {
		return err
	}
	if len(out.Errors) > 0 {
		return &contract.Failure{Class: contract.ClassSchema, Errors: out.Errors,
			Text:   fmt.Sprintf("the answer to %q is not what the tool %q declares: %s", a.id, req.Name, errorList(out.Errors, "; ")),
			Remedy: "correct the answer and send it again; the request is still open"}
	}
	return nil
}

// take keeps a message that answers no request by id: it answers the oldest question that is
// open, or else waits for the next model call.
func (d *inbox) take(ctx workflow.Context, a *sent) (*contract.Receipt, error) {
	m := a.message
	id := "message"
	if m.Key != "" {
		id = "message:" + m.Key
		if old := d.find(id); old != nil {
			if old.Hash != a.hash {
				return nil, &contract.Failure{Class: contract.ClassAlreadyAnswered, Text: fmt.Sprintf("another message has the key %q", cut(m.Key, 200)),
					Remedy: "give every message a key of its own"}
			}
			return &contract.Receipt{ID: id, Status: "accepted"}, nil
		}
		d.record(ctx, contract.Answered{ID: id, Kind: contract.RequestMessage, Hash: a.hash, By: a.by})
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
	for i := range d.requests {
		if q := &d.requests[i]; q.Kind == contract.RequestMessage && (m.Node == "" || m.Node == q.Node) {
			id = q.ID
			d.settle(ctx, i, contract.Reply{ID: q.ID, Message: m}, a.hash, a.by)
			return &contract.Receipt{ID: id, Status: "accepted"}, nil
		}
	}
	d.seq++
	seq := d.seq
	d.unread = append(d.unread, contract.Inbound{Seq: seq, Text: m.Text, Node: m.Node, By: m.By})
	d.steered(ctx)
	d.changed(ctx)
	if m.Node == "" || d.ready() {
		return &contract.Receipt{ID: id, Status: "accepted"}, nil
	}
	// The message came before the flow was known.
	if err := workflow.Await(ctx, d.ready); err != nil {
		return nil, err
	}
	if err := d.placed(m); err != nil {
		d.unread = slices.DeleteFunc(d.unread, func(i contract.Inbound) bool { return i.Seq == seq })
		d.answered = slices.DeleteFunc(d.answered, func(a contract.Answered) bool { return a.ID == id })
		d.seen = slices.DeleteFunc(d.seen, func(s string) bool { return s == update })
		return nil, err
	}
	return &contract.Receipt{ID: id, Status: "accepted"}, nil
}

// sent is an answer as it was sent.
type sent struct {
	id, hash, by string
	reply        contract.Reply
	message      *contract.MessageAnswer
	check        contract.ValidateAnswerInput
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
	case plan.Depth(raw) > maxDepth || len(a.by) > maxName || a.message != nil && len(a.message.Key) > maxName:
		err = fmt.Errorf("it nests more than %d deep, or by or key is longer than %d bytes", maxDepth, maxName)
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
		err := strictly(raw, &m)
		a.id, a.by, a.message, a.reply.Message = m.ID, m.By, &m, &m
		if err == nil && m.Text == "" {
			err = errors.New("text is empty")
		}
		return err
	case contract.RequestToolResult:
		var t contract.ToolResultAnswer
		err := strictly(raw, &t)
		a.id, a.by, a.reply.ToolResult, a.check.Result = t.ID, t.By, &t, t.Result
		if err == nil && (len(t.Result) > 0) == (t.Error != "") {
			err = errors.New("want exactly one of result and error")
		}
		return err
	case contract.RequestConfirm:
		var c contract.ConfirmAnswer
		err := strictly(raw, &c)
		a.id, a.by, a.reply.Confirm, a.check.Arguments = c.ID, c.By, &c, c.Arguments
		switch {
		case err != nil:
		case c.Approve == nil:
			err = errors.New("approve is missing, want true or false")
		case len(c.Arguments) > 0 && !bytes.HasPrefix(bytes.TrimSpace(c.Arguments), []byte("{")):
			err = fmt.Errorf("arguments is no object: %s", cut(string(c.Arguments), 100))
		case len(c.Arguments) > 0 && !*c.Approve:
			err = fmt.Errorf("arguments %s are those of a call that is allowed, but approve is false; leave out one of them", cut(string(c.Arguments), 100))
		}
		return err
	}
	var t contract.RetryAnswer
	err := strictly(raw, &t)
	a.id, a.by, a.reply.Retry = t.ID, t.By, &t
	return err
}

// strictly decodes what somebody sent: one JSON object without fields that there are not, in which each
// name stands once. A yes must not be a no for whoever reads the first of two.
func strictly(raw json.RawMessage, to any) error {
	if err := exactly(raw, to); err != nil {
		return err
	}
	if path, at := plan.Repeated(raw); at > 0 {
		return fmt.Errorf("%q is there twice, again at byte %d: %s; leave out one of the two", cut(path, 200), at, cut(string(raw[at-1:]), 50))
	}
	return nil
}

// exactly decodes one JSON object and refuses fields that there are not. null, which decodes into
// anything, is none.
func exactly(raw json.RawMessage, to any) error {
	switch text := bytes.TrimSpace(raw); {
	case len(text) == 0:
		return errors.New("there is no argument")
	case text[0] != '{':
		return fmt.Errorf("want a JSON object, not %s", cut(string(text), 100))
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text behind the object")
	}
	return nil
}

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
