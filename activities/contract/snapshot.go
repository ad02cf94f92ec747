package contract

import (
	"bytes"
	"encoding/json"

	"weft/workflows/plan"
)

// SignalYield asks a chain to come back at its next boundary with what it would itself go
// on with. Parents send it before they continue as new.
const SignalYield = "_weft_yield"

// ThreadMessage is a thread's message. Own means that workflow code wrote it.
type ThreadMessage struct {
	Raw json.RawMessage `json:"raw"`
	Own bool            `json:"own,omitempty"`
}

// RunSnapshot is what a run of type Flow goes on with when it continues as new.
type RunSnapshot struct {
	Plan   *plan.Flow  `json:"plan"`
	Source plan.Source `json:"source"`
	Hash   string      `json:"hash"`
	Shared Shared      `json:"shared"`
	// Content is what the new run must hold: the input, catalogues, latest outputs. Shared
	// and the views name it by hash.
	Content []json.RawMessage `json:"content,omitempty"`
	// Live, Pending and PendingJoins are the scheduler's executions.
	Live         []ExecutionState `json:"live,omitempty"`
	Pending      []ExecutionState `json:"pending,omitempty"`
	PendingJoins []ExecutionState `json:"pending_joins,omitempty"`
	Ran          []Count          `json:"ran,omitempty"`
	Trace        []Execution      `json:"trace,omitempty"`
	// Dropped counts executions that the trace no longer holds.
	Dropped int      `json:"dropped,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
	// Entered are the ids of the edges taken out of START.
	Entered   []string   `json:"entered,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// Ended is what the branches that ended knew together, nil where none has ended.
	Ended *View `json:"ended,omitempty"`
	Usage Usage `json:"usage"`
	// Publish and Status are what the run publishes and published last.
	Publish *Publish `json:"publish,omitempty"`
	Status  string   `json:"status,omitempty"`
	// Runs is how often the run has continued as new.
	Runs int `json:"runs"`
	// Conversation is what all nodes share.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Inbox holds requests and answers, at the run that owns them.
	Inbox *InboxState `json:"inbox,omitempty"`
	// Session is set for a session, and for a run that has started some.
	Session *SessionState `json:"session,omitempty"`
	// Fork is what a fork has not taken yet of what another run recorded.
	Fork *ForkedFrom `json:"fork,omitempty"`
	// Entry is set where the edges out of START are still being judged.
	Entry *EntryState `json:"entry,omitempty"`
}

// EntryState is a run that has not left START: what its first nodes will know, and the questions that
// were judged.
type EntryState struct {
	View  View          `json:"view"`
	Steps []JournalStep `json:"steps,omitempty"`
}

// ExecutionState is an execution that waits, or goes on in the middle.
type ExecutionState struct {
	Node       string         `json:"node"`
	Step       int            `json:"step"`
	Occurrence int            `json:"occurrence,omitempty"`
	Lineage    string         `json:"lineage,omitempty"`
	Arrivals   []ArrivalState `json:"arrivals"`
	// Suspended is set where the execution goes on in its middle, Continues where a chain that came back goes on with it.
	Suspended *SuspendedExecution `json:"suspended,omitempty"`
	Continues bool                `json:"continues,omitempty"`
}

// ArrivalState is an edge taken into a node.
type ArrivalState struct {
	Edge    int    `json:"edge"`
	Lineage string `json:"lineage,omitempty"`
	View    View   `json:"view"`
	// Same means that the view's state is that of the arrival before, in this execution or the one before
	// it in Live, Pending and PendingJoins, but for the entries that stand here: those of a fork's branches are.
	Same bool `json:"same,omitempty"`
}

// Fold leaves out what states have of those of the arrival before.
func (c *RunSnapshot) Fold() {
	var last []StateEntry
	c.EachArrival(func(a *ArrivalState) {
		whole := a.View.State
		if own, ok := beyond(whole, last); ok {
			a.View.State, a.Same = own, true
		}
		last = whole
	})
}

// Unfold puts it back.
func (c *RunSnapshot) Unfold() {
	var last []StateEntry
	c.EachArrival(func(a *ArrivalState) {
		if a.Same {
			a.View.State, a.Same = over(last, a.View.State), false
		}
		last = a.View.State
	})
}

// beyond is what a state has that another has not. Not ok: that one has keys that it lacks, or none.
// States are ordered by key.
func beyond(state, other []StateEntry) (own []StateEntry, ok bool) {
	for _, e := range state {
		if len(other) == 0 || e.Key < other[0].Key {
			own = append(own, e)
			continue
		}
		if ok = e.Key == other[0].Key; !ok {
			return nil, false
		}
		if o := other[0]; e.By != o.By || e.SHA != o.SHA || e.Size != o.Size || !bytes.Equal(e.Value, o.Value) {
			own = append(own, e)
		}
		other = other[1:]
	}
	return own, ok && len(other) == 0
}

// over is a state with the entries of another laid over it.
func over(state, own []StateEntry) []StateEntry {
	out := make([]StateEntry, 0, len(state)+len(own))
	for _, e := range state {
		for len(own) > 0 && own[0].Key < e.Key {
			out, own = append(out, own[0]), own[1:]
		}
		if len(own) > 0 && own[0].Key == e.Key {
			e, own = own[0], own[1:]
		}
		out = append(out, e)
	}
	return append(out, own...)
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
