package runtime

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
)

const (
	// MaxInline is the size up to which something that history has already is sent again, so that it can be seen where it is
	// used and no worker has to ask for it.
	MaxInline = 1 << 10
	// MaxDepth is how deep a stored value nests: what is deeper cannot be decoded again inside of what carries it.
	MaxDepth = 100
)

// Transcript is what a run keeps of its conversations: each message once, by its hash. Activities query the run for it.
type Transcript struct {
	Workflow, Run string
	Content       map[string]json.RawMessage
	threads       *threads
	// place stands before the names of threads.
	place string
}

// threads are those of a run, by name and in the order in which they began.
type threads struct {
	named map[string]*Thread
	order []string
	// recorded are the messages of the workflow's own, by hash, that a history holds in full.
	recorded map[string]bool
}

// within returns the transcript of a flow that runs in this run.
func (s *Transcript) within(place string) *Transcript {
	t := *s
	t.place = place
	return &t
}

func newTranscript(ctx workflow.Context) *Transcript {
	ex := workflow.GetInfo(ctx).WorkflowExecution
	return &Transcript{Workflow: ex.ID, Run: ex.RunID, Content: map[string]json.RawMessage{}, threads: &threads{named: map[string]*Thread{}, recorded: map[string]bool{}}}
}

// Keep stores bytes and names them.
func (s *Transcript) Keep(raw json.RawMessage) contract.ContentRef {
	sha := contract.SHA(raw)
	s.Content[sha] = raw
	return s.Ref(sha)
}

// Ref names something that this run stores.
func (s *Transcript) Ref(sha string) contract.ContentRef {
	return contract.ContentRef{Workflow: s.Workflow, Run: s.Run, SHA: sha}
}

// Value returns the state entry of a value; a long value is stored, and referred to by its hash.
func (s *Transcript) Value(key string, value json.RawMessage, by contract.Stamp) (contract.StateEntry, error) {
	e := contract.StateEntry{Key: key, By: by}
	// As it will stand in a payload, so that its size is the one that counts there.
	raw, err := contract.Encode(value)
	if err != nil {
		return e, err
	}
	if len(raw) <= MaxInline {
		e.Value = raw
		return e, nil
	}
	m := contract.Message{Role: contract.RoleTool, Text: string(textutil.Unescape(raw))}
	stored, _ := m.Encode() // a text always has JSON
	e.SHA, e.Size = s.Keep(stored).SHA, len(raw)
	return e, nil
}

// ValueOf is a state entry's value, if this run has it.
func (s *Transcript) ValueOf(e *contract.StateEntry) (json.RawMessage, bool) {
	if e.SHA == "" {
		return e.Value, true
	}
	m, err := contract.DecodeMessage(s.Content[e.SHA])
	if err != nil {
		return nil, false
	}
	return json.RawMessage(m.Text), true
}

// values are the values of a state, as many as the answer of a query holds.
func (s *Transcript) values(v contract.View) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	total := 0
	for i := range v.State {
		e := &v.State[i]
		value, ok := s.ValueOf(e)
		n := max(e.Size, len(e.Value)) // in a payload
		if !ok || total+n > contract.MaxPayload-contract.Envelope {
			value, _ = json.Marshal(fmt.Sprintf("(%d bytes, not shown here)", n))
			n = len(value)
		}
		key, _ := Size(e.Key)
		total += n + key
		out[e.Key] = value
	}
	return out
}

// Has reports whether bytes with a hash are stored.
func (s *Transcript) Has(sha string) bool {
	_, ok := s.Content[sha]
	return ok
}

// Open begins a thread.
func (s *Transcript) Open(name string) *Thread {
	name = s.place + name
	t := &Thread{Name: name, recorded: s.threads.recorded, Called: contract.Head{Thread: name}}
	s.threads.named[name] = t
	s.threads.order = append(s.threads.order, name)
	return t
}

// Write appends a message of the workflow's own.
func (s *Transcript) Write(t *Thread, m *contract.Message) contract.ContentRef {
	raw, _ := m.Encode() // texts and names always have JSON
	return s.Ref(s.put(t, raw, true))
}

// Record appends a message that an activity made, and gives its hash.
func (s *Transcript) Record(t *Thread, raw json.RawMessage) string { return s.put(t, raw, false) }

// put appends a message to a thread, and gives its hash.
func (s *Transcript) put(t *Thread, raw json.RawMessage, own bool) string {
	sha := s.Keep(raw).SHA
	t.Add(threadEntry{Sha: sha, Raw: raw, own: own})
	return sha
}

// take appends messages that another run has passed on. recorded says that a history holds them.
func (s *Transcript) take(t *Thread, messages []contract.ThreadMessage, recorded bool) {
	for _, m := range messages {
		sha := s.put(t, m.Raw, m.Own)
		t.recorded[sha] = t.recorded[sha] || recorded
	}
}

// page answers the query of that name.
func (s *Transcript) page(q contract.TranscriptQuery) (contract.TranscriptPage, error) {
	if q.Thread == "" {
		page := contract.TranscriptPage{Messages: []json.RawMessage{}}
		for _, name := range s.threads.order {
			page.Threads = append(page.Threads, contract.ThreadInfo{Thread: name, Len: len(s.threads.named[name].Entries)})
		}
		return page, nil
	}
	t, ok := s.threads.named[q.Thread]
	if !ok {
		return contract.TranscriptPage{}, notFound("thread %q", q.Thread)
	}
	upto := cmp.Or(max(q.Upto, 0), len(t.Entries))
	if q.From < 0 || q.From > upto || upto > len(t.Entries) {
		return contract.TranscriptPage{}, notFound("messages %d to %d of thread %q, which has %d", q.From, upto, q.Thread, len(t.Entries))
	}
	page := contract.TranscriptPage{Messages: []json.RawMessage{}, Total: len(t.Entries)}
	size := 0
	for _, e := range t.Entries[q.From:upto] {
		if size += len(e.Raw); size > contract.PageBytes && len(page.Messages) > 0 {
			break
		}
		raw := e.Raw
		if len(raw) > contract.MaxPayload-contract.Envelope {
			var err error
			if raw, err = s.outline(e); err != nil {
				return page, err
			}
			page.Long = append(page.Long, contract.LongMessage{Index: len(page.Messages), SHA: e.Sha, Bytes: len(e.Raw)})
		}
		page.Messages = append(page.Messages, raw)
	}
	return page, nil
}

// outline stands for a message that is too long for an answer: its text is a reference to itself.
func (s *Transcript) outline(e threadEntry) (json.RawMessage, error) {
	m, err := contract.DecodeMessage(e.Raw)
	if err != nil {
		return nil, err
	}
	short := contract.Message{Role: m.Role, CallID: m.CallID, Name: m.Name, Error: m.Error, Parts: []contract.Part{{Ref: new(s.Ref(e.Sha))}}}
	return short.Encode()
}

// contentPage answers the query content.
func (s *Transcript) contentPage(q contract.ContentQuery) (contract.ContentPage, error) {
	raw, ok := s.Content[q.SHA]
	if !ok || q.Offset < 0 || q.Offset > len(raw) {
		return contract.ContentPage{}, notFound("content %s at %d", q.SHA, q.Offset)
	}
	end := min(len(raw), q.Offset+contract.PageBytes)
	return contract.ContentPage{Data: slices.Clone(raw[q.Offset:end]), Total: len(raw)}, nil
}

// Restore makes a thread of carried messages, of which the model knows the first called, and of what was sent of it.
func (s *Transcript) Restore(t *Thread, messages []contract.ThreadMessage, called int, sent []contract.Sent) {
	t.Entries, t.Bytes, t.Hash, t.Sent, t.published = nil, 0, "", nil, 0
	t.Called.Len, t.Called.Hash = 0, ""
	s.take(t, messages[:called], true)
	t.Mark()
	s.take(t, messages[called:], true)
	t.resent(sent)
}

// SentBy is what is sent of the thread by an agent's policy.
func (t *Thread) SentBy(a *plan.Agent) *contract.Sent {
	policy := []any{a.Context, a.Long}
	if len(a.MoreContexts)+len(a.MoreLong) > 0 {
		policy = append(policy, a.MoreContexts, a.MoreLong)
	}
	raw, _ := contract.Encode(policy) // the plan came as JSON
	key := contract.SHA(raw)[:16]
	i := slices.IndexFunc(t.Sent, func(s *contract.Sent) bool { return s.Key == key })
	if i < 0 {
		i, t.Sent = len(t.Sent), append(t.Sent, &contract.Sent{Key: key})
	}
	return t.Sent[i]
}

// resent takes over what was sent of a thread before the run continued as new.
func (t *Thread) resent(list []contract.Sent) {
	for i := range list {
		t.Sent = append(t.Sent, &list[i])
	}
}

// CarriedSent is what the next run must know of it.
func (t *Thread) CarriedSent() []contract.Sent {
	var out []contract.Sent
	for _, s := range t.Sent {
		if s.Skip > 0 || s.Texts != nil {
			out = append(out, *s)
			out[len(out)-1].Texts = slices.Clone(s.Texts)
		}
	}
	return out
}

// Thread is an append-only list of messages, of which the last model call knows the first Called.
type Thread struct {
	Name     string
	Entries  []threadEntry
	Bytes    int
	Hash     string
	Called   contract.Head
	recorded map[string]bool
	// published is how many messages a [contract.ThreadRecord] names.
	published int
	// Sent is what models are sent of it, by policy; see context.go.
	Sent []*contract.Sent
}

type threadEntry struct {
	Sha string
	Raw json.RawMessage
	// own says that workflow code wrote the message, so that no activity knows it.
	own bool
}

// Add appends an entry.
func (t *Thread) Add(e threadEntry) {
	t.Entries = append(t.Entries, e)
	t.Bytes += len(e.Raw)
	t.Hash = contract.Chain(t.Hash, e.Sha)
}

// Cut leaves the first n messages.
func (t *Thread) Cut(n int) {
	entries := t.Entries[:n]
	t.Entries, t.Bytes, t.Hash, t.published = nil, 0, "", min(t.published, n)
	for _, e := range entries {
		t.Add(e)
	}
}

// Pending gives what a model call must be told: the thread as of the last call, and what came since. The workflow's own messages
// go along up to a page; the activity queries the others.
func (t *Thread) Pending() (contract.Head, []contract.TailEntry) {
	entries, bytes := t.Entries[t.Called.Len:], 0
	tail := slices.Grow([]contract.TailEntry(nil), len(entries))
	for _, e := range entries {
		x := contract.TailEntry{SHA: e.Sha}
		if e.own && bytes+len(e.Raw) <= contract.PageBytes {
			x.Message = e.Raw
			bytes += len(e.Raw)
		}
		tail = append(tail, x)
	}
	return t.Called, tail
}

// records are what threads have that history does not name yet, in as few records as payloads have room for.
func records(r *Run, x *Execution, threads ...*Thread) (out []*contract.ThreadRecord, err error) {
	var last *contract.ThreadRecord
	for _, t := range threads {
		from, room := max(t.published, t.Called.Len), 0
		t.published = len(t.Entries)
		for i := from; i < len(t.Entries); i++ {
			e := t.Entries[i]
			m := contract.TailEntry{SHA: e.Sha}
			if e.own && !t.recorded[e.Sha] {
				m.Message, t.recorded[e.Sha] = e.Raw, true
			}
			n, err := Size(m)
			if err != nil {
				return nil, err
			}
			if n++; n > room { // with a comma
				last, room = &contract.ThreadRecord{Thread: t.Name, Execution: x.ID, From: i, Below: x.Below}, contract.MaxPayload-contract.Envelope
				if t == r.Conversation.Thread {
					last.Inherited = r.Conversation.Inherited
				}
				out = append(out, last)
			}
			last.Messages, room = append(last.Messages, m), room-n
		}
	}
	if len(out) == 2 && out[0].Thread != out[1].Thread {
		both := *out[0]
		both.Aside = out[1]
		if n, err := Size(both); err != nil || n <= contract.MaxPayload {
			return []*contract.ThreadRecord{&both}, err
		}
	}
	return out, nil
}

// Publish writes into history what threads have that it does not name yet: that of two in the same event, if there is room.
func (r *Run) Publish(ctx workflow.Context, x *Execution, threads ...*Thread) error {
	out, err := records(r, x, threads...)
	if err != nil {
		return err
	}
	for _, one := range out {
		raw, err := contract.Encode(one)
		if err == nil {
			err = r.Sizes.admit(ctx, "what was said", len(raw))
		}
		if err != nil {
			return err
		}
		workflow.SideEffect(ctx, func(workflow.Context) any { return payload(raw, false) })
	}
	return nil
}

// PublishEntries publishes the flow's conversation where all its entries go into history, also those of what failed or was
// cancelled.
func (r *Run) PublishEntries(ctx workflow.Context, x *Execution) error {
	if r.Conversation.Thread == nil || !r.Shared.Entries {
		return nil
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return r.Publish(ctx, x, r.Conversation.Thread)
}

// Mark notes that a model call knows all messages so far: what its input had is in history.
func (t *Thread) Mark() {
	_, tail := t.Pending()
	for _, e := range tail {
		if len(e.Message) > 0 {
			t.recorded[e.SHA] = true
		}
	}
	t.Called.Len, t.Called.Hash = len(t.Entries), t.Hash
}
