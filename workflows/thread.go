package workflows

import (
	"encoding/json"
	"slices"
	"weft/activities/contract"
	"weft/workflows/plan"
)

// sentBy is what is sent of the thread by an agent's policy.
func (t *thread) sentBy(a *plan.Agent) *contract.Sent {
	policy := []any{a.Context, a.Long}
	if len(a.MoreContexts)+len(a.MoreLong) > 0 {
		policy = append(policy, a.MoreContexts, a.MoreLong)
	}
	raw, err := json.Marshal(policy)
	if err != nil {
		return &contract.Sent{}
	}
	key := contract.SHA(raw)[:16]
	for _, s := range t.sent {
		if s.Key == key {
			return s
		}
	}
	s := &contract.Sent{Key: key}
	t.sent = append(t.sent, s)
	return s
}

// resent takes over what was sent of a thread before the run continued as new.
func (t *thread) resent(list []contract.Sent) {
	for i := range list {
		t.sent = append(t.sent, &list[i])
	}
}

// carriedSent is what the next run must know of it.
func (t *thread) carriedSent() []contract.Sent {
	var out []contract.Sent
	for _, s := range t.sent {
		if s.Skip > 0 || s.Texts != nil {
			own := *s
			own.Texts = slices.Clone(s.Texts)
			out = append(out, own)
		}
	}
	return out
}

// thread is an append-only list of messages. The first called of them are those of which
// the last model call knows.
type thread struct {
	name    string
	entries []threadEntry
	bytes   int
	hash    string
	called  contract.Head
	// sent is what models are sent of it, by policy; see context.go.
	sent []*contract.Sent
}

type threadEntry struct {
	sha string
	raw json.RawMessage
	// own says that workflow code wrote the message, so that no activity knows it.
	own bool
}

func (t *thread) add(e threadEntry) {
	t.entries = append(t.entries, e)
	t.bytes += len(e.raw)
	t.hash = contract.Chain(t.hash, e.sha)
}

// pending gives what a model call must be told: the thread as of the last call, and what
// came since.
func (t *thread) pending() (contract.Head, []contract.TailEntry) {
	var tail []contract.TailEntry
	for _, e := range t.entries[t.called.Len:] {
		x := contract.TailEntry{SHA: e.sha}
		if e.own {
			x.Message = e.raw
		}
		tail = append(tail, x)
	}
	return t.called, tail
}

// mark notes that a model call knows all messages so far.
func (t *thread) mark() {
	t.called.Len, t.called.Hash = len(t.entries), t.hash
}
