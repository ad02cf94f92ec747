package transcript

import (
	"encoding/json"
	"slices"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Thread is a list of messages. Called describes those that the last model call has seen.
type Thread struct {
	Name     string
	Entries  []Entry
	Bytes    int
	Hash     string
	Called   contract.Head
	recorded map[string]bool
	// published is the number of messages in published [contract.ThreadRecord]s.
	published int
	// Sent records what models are sent of the thread, by policy; see workflows/agent.
	Sent []*contract.Sent
}

// Entry is a message of a thread.
type Entry struct {
	Sha string
	Raw json.RawMessage
	// own is set if workflow code has written the message, so that no activity has seen it.
	own bool
}

// Add appends an entry.
func (t *Thread) Add(e Entry) {
	t.Entries = append(t.Entries, e)
	t.Bytes += len(e.Raw)
	t.Hash = contract.Chain(t.Hash, e.Sha)
}

// Cut removes all messages but the first n.
func (t *Thread) Cut(n int) {
	entries := t.Entries[:n]
	t.Entries, t.Bytes, t.Hash, t.published = nil, 0, "", min(t.published, n)
	for _, e := range entries {
		t.Add(e)
	}
}

// Pending returns the thread's head as of the last model call and the entries added since, for the next call. They include the
// messages written by workflow code, up to a page; the activity queries the other messages.
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

// Mark records that a model call has seen all messages so far, and that history contains those of its input.
func (t *Thread) Mark() {
	_, tail := t.Pending()
	for _, e := range tail {
		if len(e.Message) > 0 {
			t.recorded[e.SHA] = true
		}
	}
	t.Called.Len, t.Called.Hash = len(t.Entries), t.Hash
}

// SentBy returns the record of what is sent of the thread by an agent's policy.
func (t *Thread) SentBy(a *plan.Agent) *contract.Sent {
	policy := []any{a.Context, a.Long}
	if len(a.MoreContexts)+len(a.MoreLong) > 0 {
		policy = append(policy, a.MoreContexts, a.MoreLong)
	}
	raw, _ := contract.Encode(policy) // decoded from JSON, so encoding cannot fail
	key := contract.SHA(raw)[:16]
	i := slices.IndexFunc(t.Sent, func(s *contract.Sent) bool { return s.Key == key })
	if i < 0 {
		i, t.Sent = len(t.Sent), append(t.Sent, &contract.Sent{Key: key})
	}
	return t.Sent[i]
}

// restoreSent restores the records of what was sent before the run continued as new.
func (t *Thread) restoreSent(list []contract.Sent) {
	for i := range list {
		t.Sent = append(t.Sent, &list[i])
	}
}

// CarriedSent returns the records of what was sent, to be carried over to the next run.
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
