package contract

import (
	"bytes"
	"encoding/json"

	"weft/workflows/plan"
)

// SignalYield asks a chain to come back at its next boundary with what it would itself go
// on with. Parents send it before they continue as new.
const SignalYield = "_weft_yield"

// CarriedMessage is a thread's message. Own means that workflow code wrote it.
type CarriedMessage struct {
	Raw json.RawMessage `json:"raw"`
	Own bool            `json:"own,omitempty"`
}

// Carry is what a run of type Flow goes on with when it continues as new.
type Carry struct {
	Plan   *plan.Flow  `json:"plan"`
	Source plan.Source `json:"source"`
	Hash   string      `json:"hash"`
	Shared Shared      `json:"shared"`
	// Content is what the new run must hold: the input, catalogues, latest outputs. Shared
	// and the views name it by hash.
	Content []json.RawMessage `json:"content,omitempty"`
	// Live, Pending and Armed are the scheduler's executions.
	Live    []CarriedExecution `json:"live,omitempty"`
	Pending []CarriedExecution `json:"pending,omitempty"`
	Armed   []CarriedExecution `json:"armed,omitempty"`
	Ran     []Count            `json:"ran,omitempty"`
	Trace   []Execution        `json:"trace,omitempty"`
	// Dropped counts executions that the trace no longer holds.
	Dropped int      `json:"dropped,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
	// Entered are the ids of the edges taken out of START.
	Entered   []string   `json:"entered,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Ended     *View      `json:"ended,omitempty"`
	Usage     Usage      `json:"usage"`
	// Publish and Status are what the run publishes and published last.
	Publish *Publish `json:"publish,omitempty"`
	Status  string   `json:"status,omitempty"`
	// Runs is how often the run has continued as new.
	Runs int `json:"runs"`
	// Talk is what all nodes share.
	Talk *Talk `json:"talk,omitempty"`
	// Desk holds requests and answers, at the run that owns them.
	Desk *DeskCarry `json:"desk,omitempty"`
	// Session is set for a session, and for a run that has started some.
	Session *SessionCarry `json:"session,omitempty"`
	// Fork is what a fork has not taken yet of what another run recorded.
	Fork *ForkedFrom `json:"fork,omitempty"`
	// Entry is set where the edges out of START are still being judged.
	Entry *CarriedEntry `json:"entry,omitempty"`
}

// CarriedEntry is a run that has not left START: what its first nodes will know, and the questions that
// were judged.
type CarriedEntry struct {
	View  View          `json:"view"`
	Steps []JournalStep `json:"steps,omitempty"`
}

// CarriedExecution is an execution that waits, or goes on in the middle.
type CarriedExecution struct {
	Node     string           `json:"node"`
	Step     int              `json:"step"`
	Nth      int              `json:"nth,omitempty"`
	Lineage  string           `json:"lineage,omitempty"`
	Arrivals []CarriedArrival `json:"arrivals"`
	// Suspended is set where the execution goes on in its middle.
	Suspended *SuspendedExecution `json:"suspended,omitempty"`
}

// CarriedArrival is an edge taken into a node.
type CarriedArrival struct {
	Edge    int    `json:"edge"`
	Lineage string `json:"lineage,omitempty"`
	View    View   `json:"view"`
	// Same means that the view's state is that of the arrival before, in this execution or the one before
	// it in Live, Pending and Armed, but for the entries that stand here: those of a fork's branches are.
	Same bool `json:"same,omitempty"`
}

// Fold leaves out what states have of those of the arrival before.
func (c *Carry) Fold() {
	var last []StateEntry
	c.arrivals(func(a *CarriedArrival) {
		whole := a.View.State
		if own, ok := beyond(whole, last); ok {
			a.View.State, a.Same = own, true
		}
		last = whole
	})
}

// Unfold puts it back.
func (c *Carry) Unfold() {
	var last []StateEntry
	c.arrivals(func(a *CarriedArrival) {
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
		if !e.is(&other[0]) {
			own = append(own, e)
		}
		other = other[1:]
	}
	return own, ok && len(other) == 0
}

// is means that two entries are the same.
func (e *StateEntry) is(o *StateEntry) bool {
	return e.Key == o.Key && e.By == o.By && e.SHA == o.SHA && e.Size == o.Size && bytes.Equal(e.Value, o.Value)
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

// arrivals goes through all arrivals in order.
func (c *Carry) arrivals(see func(*CarriedArrival)) {
	for _, list := range [][]CarriedExecution{c.Live, c.Pending, c.Armed} {
		for i := range list {
			for k := range list[i].Arrivals {
				see(&list[i].Arrivals[k])
			}
		}
	}
}
