package transcript

import (
	"encoding/json"
	"slices"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Thread is an append-only list of messages, of which the last model call knows the first Called.
type Thread struct {
	Name     string
	Entries  []Entry
	Bytes    int
	Hash     string
	Called   contract.Head
	recorded map[string]bool
	// published is how many messages a [contract.ThreadRecord] names.
	published int
	// Sent is what models are sent of it, by policy; see context.go.
	Sent []*contract.Sent
}

// Entry is a message of a thread.
type Entry struct {
	Sha string
	Raw json.RawMessage
	// own says that workflow code wrote the message, so that no activity knows it.
	own bool
}

// Add appends an entry.
func (t *Thread) Add(e Entry) {
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
