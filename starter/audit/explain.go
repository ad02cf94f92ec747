package audit

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/history"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

func (l *Reader) request(id, kind string) *Request {
	r := l.byID[id]
	if r == nil {
		r = &Request{ID: id, Kind: kind, Outcome: Open, Answers: []Answer{}}
		l.byID[id] = r
		l.out.Requests = append(l.out.Requests, r)
	}
	r.Kind = cmp.Or(r.Kind, kind)
	return r
}

func (l *Reader) addAnnounced(q *contract.Request, at time.Time) {
	r := l.request(q.ID, q.Kind)
	if r.Asked != "" {
		return // again, after a resumption
	}
	r.Hash, r.Asked, r.Tool, r.Name, r.Connection, r.Arguments = q.Hash, q.Text, q.Tool, q.Name, q.Connection, q.Arguments
	r.Execution, r.At, r.Workflow, r.AskedAt = q.Execution, q.At, q.Run.Workflow, &at
	var contents []string
	if q.Failure != nil {
		contents = append(contents, q.Failure.Class+q.Failure.Text)
	}
	contents = append(contents, q.Text)
	for _, raw := range encodings(q.Arguments) {
		contents = append(contents, q.Name+"\n"+raw)
	}
	r.bind(contents)
}

// encodings returns the encodings that JSON may have had when it was hashed: a payload adds escapes and removes spaces.
func encodings(raw json.RawMessage) []string {
	if len(raw) == 0 {
		return nil
	}
	short := textutil.Compact(raw)
	return []string{string(raw), short,
		strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(short),
		strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(short)}
}

// boundTo splits an id into its name and the first digits of the hash.
var boundTo = regexp.MustCompile(`^(.*)-([0-9a-f]{8})$`)

// bind reports whether a request's id matches the hash of one of the contents, and sets the hash.
func (r *Request) bind(contents []string) bool {
	m := boundTo.FindStringSubmatch(r.ID)
	if m == nil {
		return false
	}
	for _, c := range contents {
		hash := contract.SHA([]byte(r.Kind + "\n" + m[1] + "\n" + contract.SHA([]byte(c))))
		if hash[:8] == m[2] && (r.Hash == "" || r.Hash == hash) {
			r.Hash, r.Bound, r.Hashed = hash, true, c
			return true
		}
	}
	return false
}

func (l *Reader) sent(m *history.Message, x *Answer) {
	kind := m.Name
	raw, ok := m.JSON()
	if !ok {
		l.SetIncomplete("an answer is encoded and cannot be decoded here")
		return
	}
	var body struct {
		contract.Author
		ID   string `json:"id"`
		Key  string `json:"key"`
		Node string `json:"node"`
	}
	_ = json.Unmarshal(raw, &body) // a signal may be any JSON; only an object has an id
	x.By, x.OnBehalfOf, x.Run, x.Answer, x.Hash, x.Status = body.By, body.OnBehalfOf, l.run, raw, contract.SHA([]byte(textutil.Compact(raw))), Pending
	if x.Via == "signal" {
		x.Status = Unconfirmed
	}
	id := body.ID
	if id == "" && kind == contract.RequestMessage {
		if q := l.question(body.Node); q != nil {
			l.answers(q, *x)
			if body.Key == "" {
				return
			}
		}
		if id = "message"; body.Key != "" {
			id += ":" + body.Key
		}
		if body.Key == "" || l.byID[id] == nil {
			l.byID[id] = nil
			l.request(id, kind).Outcome = Sent
		}
	}
	l.answers(l.request(id, kind), *x)
}

// answers adds an answer to a request. A signal takes effect, if at all, in the next workflow task.
func (l *Reader) answers(r *Request, x Answer) {
	r.Answers = append(r.Answers, x)
	if x.Status == Unconfirmed && r.TakenAt == nil {
		r.TakenAt = l.nextTaskTime()
	}
}

// question returns the request that a message without an id answers: the oldest open request for a message, of the node if it names one.
func (l *Reader) question(node string) *Request {
	for _, r := range l.out.Requests {
		_, exec, _ := history.CutLast("/"+r.Execution, "/")
		if r.Kind == contract.RequestMessage && r.Outcome == Open && r.AskedAt != nil && r.TakenAt == nil && (node == "" || history.ExecutionOf(exec).Node == node) {
			return r
		}
	}
	return nil
}

// Trail returns the trail, after [Reader.explain] for the root's own requests.
func (l *Reader) Trail() *Trail {
	if l.flow != nil {
		l.out.Flow = cmp.Or(l.flow.Name, l.out.Flow)
	}
	for _, r := range l.out.Requests {
		if !r.Bound && r.Outcome != Sent {
			l.explain(r)
		}
		waits := !l.Ended && slices.ContainsFunc(l.listed, func(q contract.Request) bool { return q.ID == r.ID })
		for i := range r.Answers {
			if r.Outcome == Open && !waits && r.Answers[i].Status == Unconfirmed {
				r.Outcome = Answered
			}
		}
		if r.Outcome == Open && l.Ended {
			r.Outcome = Closed
		}
	}
	l.addRemembered()
	slices.SortStableFunc(l.out.Requests, func(x, y *Request) int { return x.first().Compare(y.first()) })
	return &l.out
}

func (r *Request) first() time.Time {
	if r.AskedAt == nil && len(r.Answers) > 0 {
		return r.Answers[0].Time
	}
	return *cmp.Or(r.AskedAt, r.EndedAt, &time.Time{})
}

// explain finds the content of a request in the messages of the root's agents and in failed calls.
func (l *Reader) explain(r *Request) {
	m := boundTo.FindStringSubmatch(r.ID)
	if m == nil {
		return
	}
	exec, rest, _ := strings.Cut(m[1], "/")
	r.Kind = cmp.Or(r.Kind, kindOf(rest))
	r.Execution, r.Workflow = cmp.Or(r.Execution, exec), cmp.Or(r.Workflow, l.out.Run)
	if r.At == "" && l.flow != nil && l.flow.Node(history.ExecutionOf(exec).Node) != nil {
		r.At = l.source.At(plan.NodePath(history.ExecutionOf(exec).Node))
	}
	switch r.Kind {
	case contract.RequestRetry:
		id, occurrence, _ := history.CutLast(m[1], "~")
		if occurrence != "1" {
			id += "~" + occurrence
		}
		if f, ok := l.failed[id]; ok && r.bind([]string{f.failure.Class + f.failure.Text}) {
			r.Asked, r.AskedAt = f.failure.Error(), f.at
		}
	case contract.RequestConfirm, contract.RequestToolResult:
		for i := range l.messages {
			for j := range l.messages[i].message.Calls {
				if l.messages[i].exec == exec && l.called(r, &l.messages[i], j) {
					return
				}
			}
		}
	}
}

func kindOf(rest string) string {
	switch what, _, _ := strings.Cut(rest, "/"); {
	case strings.Contains(rest, "~"):
		return contract.RequestRetry
	case what == "confirm":
		return contract.RequestConfirm
	case what == "client":
		return contract.RequestToolResult
	}
	return contract.RequestMessage
}

// called reports whether a request is about a call, with the model's or a user's arguments, and describes it.
func (l *Reader) called(r *Request, s *agentMessage, at int) bool {
	call := s.message.Calls[at]
	args := []json.RawMessage{argumentsOf(&call)}
	for _, other := range l.out.Requests {
		for _, x := range other.Answers {
			var c contract.ConfirmAnswer
			if other.Kind == contract.RequestConfirm && json.Unmarshal(x.Answer, &c) == nil && len(c.Arguments) > 0 {
				args = append(args, c.Arguments)
			}
		}
	}
	tools := l.tools(call.Name)
	for _, raw := range args {
		for _, t := range tools {
			for _, way := range encodings(value.Complete(t.ArgumentsSchema, raw)) {
				if r.bind([]string{t.Name + "\n" + way}) {
					r.Tool, r.Name, r.Connection, r.Arguments, r.AskedAt = t.As, t.Name, t.Connection, json.RawMessage(way), cmp.Or(r.AskedAt, s.at)
					r.Asked = cmp.Or(r.Asked, map[string]string{contract.RequestConfirm: "may it be called: ", contract.RequestToolResult: "run "}[r.Kind]+t.As)
					return true
				}
			}
		}
	}
	return false
}

// argumentsOf returns a call's arguments as its agent reads them: a model may omit them.
func argumentsOf(call *contract.ToolCall) json.RawMessage {
	if text := strings.TrimSpace(call.Arguments); text != "" && text != "null" {
		return json.RawMessage(text)
	}
	return json.RawMessage("{}")
}

// tools returns the flow's tools that models call by a name, and a tool with that name.
func (l *Reader) tools(as string) []plan.Tool {
	var out []plan.Tool
	if l.flow != nil {
		for i := range l.flow.Nodes {
			for _, b := range l.flow.Nodes[i].BoundTools() {
				if b.Tool.As == as {
					out = append(out, *b.Tool)
				}
			}
		}
	}
	return append(out, plan.Tool{As: as, Name: as})
}

// addRemembered adds the calls that a remembered answer decided: they opened no request, so they have no event.
func (l *Reader) addRemembered() {
	for _, r := range slices.Clone(l.out.Requests) {
		for i := range r.Answers {
			var c contract.ConfirmAnswer
			x := &r.Answers[i]
			if r.Kind != contract.RequestConfirm || x.Status == Refused || json.Unmarshal(x.Answer, &c) != nil || !c.Remember || r.Tool == "" {
				continue
			}
			for j := range l.messages {
				if s := &l.messages[j]; s.at.After(x.Time) {
					l.findRemembered(r, s)
				}
			}
		}
	}
}

func (l *Reader) findRemembered(r *Request, s *agentMessage) {
	for i, call := range s.message.Calls {
		name := s.exec + "/confirm/" + s.turn + "." + strconv.Itoa(i+1)
		asked := func(o *Request) bool { m := boundTo.FindStringSubmatch(o.ID); return m != nil && m[1] == name }
		if call.Name != r.Tool || slices.ContainsFunc(l.out.Requests, asked) {
			continue
		}
		args := argumentsOf(&call)
		if i := slices.IndexFunc(l.tools(call.Name), func(t plan.Tool) bool { return t.Name == r.Name }); i >= 0 {
			args = value.Complete(l.tools(call.Name)[i].ArgumentsSchema, args)
		}
		hash := contract.SHA([]byte(contract.RequestConfirm + "\n" + name + "\n" + contract.SHA([]byte(r.Name+"\n"+string(args)))))
		o := l.request(name+"-"+hash[:8], contract.RequestConfirm)
		o.Outcome, o.AskedAt, o.EndedAt = Remembered, s.at, s.at
		l.explain(o)
	}
}
