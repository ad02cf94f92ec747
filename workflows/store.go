package workflows

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// store is what a run keeps of its conversations: each message once, by its hash. Activities
// that need more than their input ask the run for it by query.
type transcript struct {
	workflow, run string
	content       map[string]json.RawMessage
	threads       map[string]*thread
	order         []string
}

func newTranscript(ctx workflow.Context) *transcript {
	ex := workflow.GetInfo(ctx).WorkflowExecution
	return &transcript{workflow: ex.ID, run: ex.RunID, content: map[string]json.RawMessage{}, threads: map[string]*thread{}}
}

// keep stores bytes and names them.
func (s *transcript) keep(raw json.RawMessage) contract.ContentRef {
	sha := contract.SHA(raw)
	s.content[sha] = raw
	return contract.ContentRef{Workflow: s.workflow, Run: s.run, SHA: sha}
}

// value makes a state entry of a value: a long one is stored, and named by its hash.
func (s *transcript) value(key string, value json.RawMessage, by contract.Stamp) (contract.StateEntry, error) {
	e := contract.StateEntry{Key: key, By: by}
	// As it will stand in a payload, so that its size is the one that counts there.
	raw, err := json.Marshal(value)
	if err != nil {
		return e, err
	}
	if len(raw) <= maxInline {
		e.Value = raw
		return e, nil
	}
	m := contract.Message{Role: contract.RoleTool, Text: string(unescape(raw))}
	stored, err := m.Encode()
	if err != nil {
		return e, err
	}
	e.SHA, e.Size = s.keep(stored).SHA, len(raw)
	return e, nil
}

// valueOf is a state entry's value, if this run has it.
func (s *transcript) valueOf(e *contract.StateEntry) (json.RawMessage, bool) {
	if e.SHA == "" {
		return e.Value, true
	}
	m, err := contract.DecodeMessage(s.content[e.SHA])
	if err != nil {
		return nil, false
	}
	return json.RawMessage(m.Text), true
}

// has reports whether bytes with a hash are stored.
func (s *transcript) has(sha string) bool {
	_, ok := s.content[sha]
	return ok
}

// open begins a thread.
func (s *transcript) open(name string) *thread {
	t := &thread{name: name, called: contract.Head{Workflow: s.workflow, Run: s.run, Thread: name}}
	s.threads[name] = t
	s.order = append(s.order, name)
	return t
}

// write appends a message of the workflow's own.
func (s *transcript) write(t *thread, m *contract.Message) (contract.ContentRef, error) {
	raw, err := m.Encode()
	if err != nil {
		return contract.ContentRef{}, err
	}
	ref := s.keep(raw)
	t.add(threadEntry{sha: ref.SHA, raw: raw, own: true})
	return ref, nil
}

// record appends a message that an activity made, and gives its hash.
func (s *transcript) record(t *thread, raw json.RawMessage) string {
	sha := contract.SHA(raw)
	s.content[sha] = raw
	t.add(threadEntry{sha: sha, raw: raw})
	return sha
}

// transcript answers the query of that name.
func (s *transcript) page(q contract.TranscriptQuery) (contract.TranscriptPage, error) {
	if q.Thread == "" {
		page := contract.TranscriptPage{Messages: []json.RawMessage{}}
		for _, name := range s.order {
			page.Threads = append(page.Threads, contract.ThreadInfo{Thread: name, Len: len(s.threads[name].entries)})
		}
		return page, nil
	}
	t, ok := s.threads[q.Thread]
	if !ok {
		return contract.TranscriptPage{}, notFound("thread %q", q.Thread)
	}
	upto := len(t.entries)
	if q.Upto > 0 {
		upto = q.Upto
	}
	if q.From < 0 || q.From > upto || upto > len(t.entries) {
		return contract.TranscriptPage{}, notFound("messages %d to %d of thread %q, which has %d", q.From, upto, q.Thread, len(t.entries))
	}
	page := contract.TranscriptPage{Messages: []json.RawMessage{}, Total: len(t.entries)}
	size := 0
	for _, e := range t.entries[q.From:upto] {
		if size += len(e.raw); size > contract.PageBytes && len(page.Messages) > 0 {
			break
		}
		raw := e.raw
		if len(raw) > maxPayload-envelope {
			var err error
			if raw, err = s.outline(e); err != nil {
				return page, err
			}
			page.Long = append(page.Long, contract.LongMessage{Index: len(page.Messages), SHA: e.sha, Bytes: len(e.raw)})
		}
		page.Messages = append(page.Messages, raw)
	}
	return page, nil
}

// outline stands for a message that is too long for an answer: its text is by reference, to
// itself.
func (s *transcript) outline(e threadEntry) (json.RawMessage, error) {
	m, err := contract.DecodeMessage(e.raw)
	if err != nil {
		return nil, err
	}
	ref := contract.ContentRef{Workflow: s.workflow, Run: s.run, SHA: e.sha}
	short := contract.Message{Role: m.Role, CallID: m.CallID, Name: m.Name, Error: m.Error, Parts: []contract.Part{{Ref: &ref}}}
	return short.Encode()
}

// piece answers the query content.
func (s *transcript) contentPage(q contract.ContentQuery) (contract.ContentPage, error) {
	raw, ok := s.content[q.SHA]
	if !ok || q.Offset < 0 || q.Offset > len(raw) {
		return contract.ContentPage{}, notFound("content %s at %d", q.SHA, q.Offset)
	}
	end := min(len(raw), q.Offset+contract.PageBytes)
	return contract.ContentPage{Data: slices.Clone(raw[q.Offset:end]), Total: len(raw)}, nil
}

// again makes a thread of carried messages; the model knows the first called of them.
func (s *transcript) restore(t *thread, messages []contract.CarriedMessage, called int) {
	t.entries, t.bytes, t.hash, t.sent = nil, 0, "", nil
	t.called.Len, t.called.Hash = 0, ""
	for i, m := range messages {
		sha := contract.SHA(m.Raw)
		s.content[sha] = m.Raw
		t.add(threadEntry{sha: sha, raw: m.Raw, own: m.Own})
		if i+1 == called {
			t.mark()
		}
	}
}
