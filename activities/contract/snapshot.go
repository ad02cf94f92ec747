package contract

import (
	"bytes"
	"encoding/json"

	"weft/workflows/plan"
)

// SignalYield asks a chain to return at its next boundary with the state from which it can continue. Parents send it
// before they continue as new.
const SignalYield = "_weft_yield"

// ThreadMessage is a message of a thread. Own means that workflow code wrote it.
type ThreadMessage struct {
	Raw json.RawMessage `json:"raw"`
	Own bool            `json:"own,omitempty"`
}

// RunSnapshot is the state that a run of type Flow carries over when it continues as new.
type RunSnapshot struct {
	Plan   *plan.Flow  `json:"plan"`
	Source plan.Source `json:"source"`
	Hash   string      `json:"hash"`
	Shared Shared      `json:"shared"`
	// Content is what the new run must store: the input, catalogues, latest outputs. Shared and the views refer to it by
	// hash.
	Content []json.RawMessage `json:"content,omitempty"`
	// Live, Pending and PendingJoins are the scheduler's executions.
	Live         []ExecutionState `json:"live,omitempty"`
	Pending      []ExecutionState `json:"pending,omitempty"`
	PendingJoins []ExecutionState `json:"pending_joins,omitempty"`
	Ran          []Count          `json:"ran,omitempty"`
	Trace        []Execution      `json:"trace,omitempty"`
	// Dropped counts executions that are no longer in the trace.
	Dropped int      `json:"dropped,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
	// Entered are the ids of the edges taken out of START.
	Entered   []string   `json:"entered,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// Ended is the joint view of the branches that have ended, nil if none has.
	Ended *View `json:"ended,omitempty"`
	Usage Usage `json:"usage"`
	// Publish is what the run publishes; Status is the status it last published.
	Publish *Publish `json:"publish,omitempty"`
	Status  string   `json:"status,omitempty"`
	// Runs is how often the run has continued as new.
	Runs int `json:"runs"`
	// Conversation is shared by all nodes.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Inbox holds requests and answers, in the run that owns them.
	Inbox *InboxState `json:"inbox,omitempty"`
	// Session is set for a session, and for a run that has started sessions.
	Session *SessionState `json:"session,omitempty"`
	// Fork is the part of another run's records that a fork has not consumed yet.
	Fork *ForkedFrom `json:"fork,omitempty"`
	// Entry is set while the conditions of the edges out of START are being evaluated.
	Entry *EntryState `json:"entry,omitempty"`
}

// EntryState is the state of a run that has not left START: the view of its first nodes, and the conditions evaluated so
// far.
type EntryState struct {
	View  View          `json:"view"`
	Steps []JournalStep `json:"steps,omitempty"`
}

// ExecutionState is an execution that is waiting or suspended.
type ExecutionState struct {
	Node       string         `json:"node"`
	Step       int            `json:"step"`
	Occurrence int            `json:"occurrence,omitempty"`
	Lineage    string         `json:"lineage,omitempty"`
	Arrivals   []ArrivalState `json:"arrivals"`
	// Suspended is set if the execution continues from its middle, Continues if a chain that has returned continues with
	// it.
	Suspended *SuspendedExecution `json:"suspended,omitempty"`
	Continues bool                `json:"continues,omitempty"`
}

// ArrivalState is an edge taken into a node.
type ArrivalState struct {
	Edge    int    `json:"edge"`
	Lineage string `json:"lineage,omitempty"`
	View    View   `json:"view"`
	// Same means that the view's state equals that of the previous arrival, in this execution or the one before it in
	// Live, Pending and PendingJoins, except for the entries listed here. The states of a fork's branches are mostly
	// equal.
	Same bool `json:"same,omitempty"`
}

// Fold removes from each arrival the state entries that it shares with the previous arrival.
func (c *RunSnapshot) Fold() {
	var last []StateEntry
	c.EachArrival(func(a *ArrivalState) {
		full := a.View.State
		if changed, ok := stateDiff(full, last); ok {
			a.View.State, a.Same = changed, true
		}
		last = full
	})
}

// Unfold reverses [RunSnapshot.Fold].
func (c *RunSnapshot) Unfold() {
	var last []StateEntry
	c.EachArrival(func(a *ArrivalState) {
		if a.Same {
			a.View.State, a.Same = applyDiff(last, a.View.State), false
		}
		last = a.View.State
	})
}

// stateDiff returns the entries of state that differ from those of other. It reports false if other is empty or has keys
// that state lacks. States are sorted by key.
func stateDiff(state, other []StateEntry) (changed []StateEntry, ok bool) {
	for _, e := range state {
		if len(other) == 0 || e.Key < other[0].Key {
			changed = append(changed, e)
			continue
		}
		if ok = e.Key == other[0].Key; !ok {
			return nil, false
		}
		if o := other[0]; e.By != o.By || e.SHA != o.SHA || e.Size != o.Size || !bytes.Equal(e.Value, o.Value) {
			changed = append(changed, e)
		}
		other = other[1:]
	}
	return changed, ok && len(other) == 0
}

// applyDiff returns state with the entries in changed replaced.
func applyDiff(state, changed []StateEntry) []StateEntry {
	out := make([]StateEntry, 0, len(state)+len(changed))
	for _, e := range state {
		for len(changed) > 0 && changed[0].Key < e.Key {
			out, changed = append(out, changed[0]), changed[1:]
		}
		if len(changed) > 0 && changed[0].Key == e.Key {
			e, changed = changed[0], changed[1:]
		}
		out = append(out, e)
	}
	return append(out, changed...)
}

// EachArrival calls see with each arrival, in order.
func (c *RunSnapshot) EachArrival(see func(*ArrivalState)) {
	for _, list := range [][]ExecutionState{c.Live, c.Pending, c.PendingJoins} {
		for i := range list {
			for k := range list[i].Arrivals {
				see(&list[i].Arrivals[k])
			}
		}
	}
}
