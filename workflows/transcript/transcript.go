// Package transcript holds what a run keeps of its conversations. It knows nothing of Temporal.
package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"weft/activities/contract"
	"weft/activities/textutil"
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

// Within returns the transcript of a flow that runs in this run.
func (s *Transcript) Within(place string) *Transcript {
	t := *s
	t.place = place
	return &t
}

// New is the empty transcript of a run.
func New(workflow, run string) *Transcript {
	return &Transcript{Workflow: workflow, Run: run, Content: map[string]json.RawMessage{}, threads: &threads{named: map[string]*Thread{}, recorded: map[string]bool{}}}
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

// Values are the values of a state, as many as the answer of a query holds.
func (s *Transcript) Values(v contract.View) map[string]json.RawMessage {
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
		key, _ := contract.Size(e.Key)
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
	t.Add(Entry{Sha: sha, Raw: raw, own: own})
	return sha
}

// take appends messages that another run has passed on. recorded says that a history holds them.
func (s *Transcript) take(t *Thread, messages []contract.ThreadMessage, recorded bool) {
	for _, m := range messages {
		sha := s.put(t, m.Raw, m.Own)
		t.recorded[sha] = t.recorded[sha] || recorded
	}
}

// Page answers the query transcript.
func (s *Transcript) Page(q contract.TranscriptQuery) (contract.TranscriptPage, error) {
	if q.Thread == "" {
		page := contract.TranscriptPage{Messages: []json.RawMessage{}}
		for _, name := range s.threads.order {
			page.Threads = append(page.Threads, contract.ThreadInfo{Thread: name, Len: len(s.threads.named[name].Entries)})
		}
		return page, nil
	}
	t, ok := s.threads.named[q.Thread]
	if !ok {
		return contract.TranscriptPage{}, NotFound("thread %q", q.Thread)
	}
	upto := cmp.Or(max(q.Upto, 0), len(t.Entries))
	if q.From < 0 || q.From > upto || upto > len(t.Entries) {
		return contract.TranscriptPage{}, NotFound("messages %d to %d of thread %q, which has %d", q.From, upto, q.Thread, len(t.Entries))
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
func (s *Transcript) outline(e Entry) (json.RawMessage, error) {
	m, err := contract.DecodeMessage(e.Raw)
	if err != nil {
		return nil, err
	}
	short := contract.Message{Role: m.Role, CallID: m.CallID, Name: m.Name, Error: m.Error, Parts: []contract.Part{{Ref: new(s.Ref(e.Sha))}}}
	return short.Encode()
}

// ContentPage answers the query content.
func (s *Transcript) ContentPage(q contract.ContentQuery) (contract.ContentPage, error) {
	raw, ok := s.Content[q.SHA]
	if !ok || q.Offset < 0 || q.Offset > len(raw) {
		return contract.ContentPage{}, NotFound("content %s at %d", q.SHA, q.Offset)
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

// NotFound is the error of a query for something that the run does not have: of class transcript_lost.
func NotFound(format string, args ...any) error {
	return (&contract.Failure{Class: contract.ClassTranscriptLost, Text: fmt.Sprintf("this run has no "+format, args...)}).ApplicationError()
}
