package runtime

import (
	"encoding/json"
	"slices"
	"weft/activities/contract"
	"weft/workflows/plan"
)

// SentBy is what is sent of the thread by an agent's policy.
func (t *Thread) SentBy(a *plan.Agent) *contract.Sent {
	policy := []any{a.Context, a.Long}
	if len(a.MoreContexts)+len(a.MoreLong) > 0 {
		policy = append(policy, a.MoreContexts, a.MoreLong)
	}
	raw, err := json.Marshal(policy)
	if err != nil {
		return &contract.Sent{}
	}
	key := contract.SHA(raw)[:16]
	for _, s := range t.Sent {
		if s.Key == key {
			return s
		}
	}
	s := &contract.Sent{Key: key}
	t.Sent = append(t.Sent, s)
	return s
}

// Resent takes over what was sent of a thread before the run continued as new.
func (t *Thread) Resent(list []contract.Sent) {
	for i := range list {
		t.Sent = append(t.Sent, &list[i])
	}
}

// CarriedSent is what the next run must know of it.
func (t *Thread) CarriedSent() []contract.Sent {
	var out []contract.Sent
	for _, s := range t.Sent {
		if s.Skip > 0 || s.Texts != nil {
			own := *s
			own.Texts = slices.Clone(s.Texts)
			out = append(out, own)
		}
	}
	return out
}

// Thread is an append-only list of messages. The first called of them are those of which
// the last model call knows.
type Thread struct {
	Name    string
	Entries []threadEntry
	Bytes   int
	Hash    string
	Called  contract.Head
	// Sent is what models are sent of it, by policy; see context.go.
	Sent []*contract.Sent
}

type threadEntry struct {
	Sha string
	Raw json.RawMessage
	// own says that workflow code wrote the message, so that no activity knows it.
	own bool
}

func (t *Thread) add(e threadEntry) {
	t.Entries = append(t.Entries, e)
	t.Bytes += len(e.Raw)
	t.Hash = contract.Chain(t.Hash, e.Sha)
}

// Pending gives what a model call must be told: the thread as of the last call, and what
// came since. The workflow's own messages go along up to a page; the activity queries the others.
func (t *Thread) Pending() (contract.Head, []contract.TailEntry) {
	var tail []contract.TailEntry
	bytes := 0
	for _, e := range t.Entries[t.Called.Len:] {
		x := contract.TailEntry{SHA: e.Sha}
		if e.own && bytes+len(e.Raw) <= contract.PageBytes {
			x.Message = e.Raw
			bytes += len(e.Raw)
		}
		tail = append(tail, x)
	}
	return t.Called, tail
}

// Mark notes that a model call knows all messages so far.
func (t *Thread) Mark() {
	t.Called.Len, t.Called.Hash = len(t.Entries), t.Hash
}
