// Package transcript stores the conversations of a run. It does not depend on Temporal.
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
	// MaxInline is the size up to which content is sent again instead of by reference to history, so that it is visible where it is
	// used and workers need not query it.
	MaxInline = 1 << 10
	// MaxDepth is the maximum nesting of a stored value, so that it can be decoded within the values that contain it.
	MaxDepth = 100
)

// Transcript stores the messages of a run's conversations, each once, by its hash. Activities query the run for them.
type Transcript struct {
	Workflow, Run string
	Content       map[string]json.RawMessage
	threads       *threads
	// prefix prefixes the names of threads.
	prefix string
}

// threads are the threads of a run, by name and in the order in which they were opened.
type threads struct {
	named map[string]*Thread
	order []string
	// recorded holds the hashes of the messages written by workflow code that a history contains.
	recorded map[string]bool
}

// Within returns the transcript of a nested flow of the same run, with a prefix for the names of its threads.
func (s *Transcript) Within(prefix string) *Transcript {
	t := *s
	t.prefix = prefix
	return &t
}

// New returns the empty transcript of a run.
func New(workflow, run string) *Transcript {
	return &Transcript{Workflow: workflow, Run: run, Content: map[string]json.RawMessage{}, threads: &threads{named: map[string]*Thread{}, recorded: map[string]bool{}}}
}

// Keep stores content and returns a reference to it.
func (s *Transcript) Keep(raw json.RawMessage) contract.ContentRef {
	sha := contract.SHA(raw)
	s.Content[sha] = raw
	return s.Ref(sha)
}

// Ref returns a reference to content that this run stores.
func (s *Transcript) Ref(sha string) contract.ContentRef {
	return contract.ContentRef{Workflow: s.Workflow, Run: s.Run, SHA: sha}
}

// Value returns the state entry of a value; a long value is stored, and referred to by its hash.
func (s *Transcript) Value(key string, value json.RawMessage, by contract.Stamp) (contract.StateEntry, error) {
	e := contract.StateEntry{Key: key, By: by}
	// Encode it as in a payload, so that sizes agree.
	raw, err := contract.Encode(value)
	if err != nil {
		return e, err
	}
	if len(raw) <= MaxInline {
		e.Value = raw
		return e, nil
	}
	m := contract.Message{Role: contract.RoleTool, Text: string(textutil.Unescape(raw))}
	stored, _ := m.Encode() // encoding a string cannot fail
	e.SHA, e.Size = s.Keep(stored).SHA, len(raw)
	return e, nil
}

// ValueOf returns a state entry's value; false if this run does not have it.
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

// Values returns the values of a state. Those that do not fit into the result of a query are replaced by a note.
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

// Has reports whether content with a hash is stored.
func (s *Transcript) Has(sha string) bool {
	_, ok := s.Content[sha]
	return ok
}

// Open adds an empty thread.
func (s *Transcript) Open(name string) *Thread {
	name = s.prefix + name
	t := &Thread{Name: name, recorded: s.threads.recorded, Called: contract.Head{Thread: name}}
	s.threads.named[name] = t
	s.threads.order = append(s.threads.order, name)
	return t
}

// Write appends a message written by workflow code, and returns a reference to it.
func (s *Transcript) Write(t *Thread, m *contract.Message) contract.ContentRef {
	raw, _ := m.Encode() // encoding strings cannot fail
	return s.Ref(s.put(t, raw, true))
}

// Record appends a message returned by an activity, and returns its hash.
func (s *Transcript) Record(t *Thread, raw json.RawMessage) string { return s.put(t, raw, false) }

// put appends a message to a thread, and returns its hash. own is set if workflow code has written it.
func (s *Transcript) put(t *Thread, raw json.RawMessage, own bool) string {
	sha := s.Keep(raw).SHA
	t.Add(Entry{Sha: sha, Raw: raw, own: own})
	return sha
}

// addMessages appends messages of another run. recorded is set if a history contains them.
func (s *Transcript) addMessages(t *Thread, messages []contract.ThreadMessage, recorded bool) {
	for _, m := range messages {
		sha := s.put(t, m.Raw, m.Own)
		t.recorded[sha] = t.recorded[sha] || recorded
	}
}

// Page answers the query for a transcript: a page of a thread or, without a name, the list of threads.
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

// outline returns a substitute for a message that is too long for a query result: its only part is a reference to the message.
func (s *Transcript) outline(e Entry) (json.RawMessage, error) {
	m, err := contract.DecodeMessage(e.Raw)
	if err != nil {
		return nil, err
	}
	short := contract.Message{Role: m.Role, CallID: m.CallID, Name: m.Name, Error: m.Error, Parts: []contract.Part{{Ref: new(s.Ref(e.Sha))}}}
	return short.Encode()
}

// ContentPage answers the query for content.
func (s *Transcript) ContentPage(q contract.ContentQuery) (contract.ContentPage, error) {
	raw, ok := s.Content[q.SHA]
	if !ok || q.Offset < 0 || q.Offset > len(raw) {
		return contract.ContentPage{}, NotFound("content %s at %d", q.SHA, q.Offset)
	}
	end := min(len(raw), q.Offset+contract.PageBytes)
	return contract.ContentPage{Data: slices.Clone(raw[q.Offset:end]), Total: len(raw)}, nil
}

// Restore replaces a thread's messages, of which a model call has seen the first called ones, and restores what was sent of them.
func (s *Transcript) Restore(t *Thread, messages []contract.ThreadMessage, called int, sent []contract.Sent) {
	t.Entries, t.Bytes, t.Hash, t.Sent, t.published = nil, 0, "", nil, 0
	t.Called.Len, t.Called.Hash = 0, ""
	s.addMessages(t, messages[:called], true)
	t.Mark()
	s.addMessages(t, messages[called:], true)
	t.restoreSent(sent)
}

// NotFound returns the error, of class transcript_lost, of a query for something that the run does not have.
func NotFound(format string, args ...any) error {
	return (&contract.Failure{Class: contract.ClassTranscriptLost, Text: fmt.Sprintf("this run has no "+format, args...)}).ApplicationError()
}
