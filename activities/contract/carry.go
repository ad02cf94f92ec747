package contract

import (
	"bytes"
	"encoding/json"

	"weft/workflows/plan"
)

// SignalYield asks a chain to come back at its next boundary with what it would itself go
// on with. Parents send it before they continue as new.
const SignalYield = "yield"

// AgentCarry is an agent's execution between two turns.
type AgentCarry struct {
	Messages  []CarriedMessage `json:"messages"`
	Called    int              `json:"called"`
	Turn      int              `json:"turn"`
	Left      int              `json:"left"`
	Errors    int              `json:"errors,omitempty"`
	Repairs   int              `json:"repairs,omitempty"`
	Exhausted bool             `json:"exhausted,omitempty"`
	// Begun is how many of Messages a shared conversation had when the agent began.
	Begun int `json:"begun,omitempty"`
	// Think means that the next call is for a thought; Results counts tool results for it.
	Think   bool `json:"think,omitempty"`
	Results int  `json:"results,omitempty"`
	// Problems are those of the finish tool's arguments in the last message.
	Problems []FieldError `json:"problems,omitempty"`
	// Calls are those of the last message where the agent stopped in their middle.
	Calls []CarriedCall `json:"calls,omitempty"`
	// Parked is the model call that waits for an operator; its place is 1 for the call that sends
	// less, after one that was found too long. Summary is the call that waits to summarise.
	Parked  *Parked `json:"parked,omitempty"`
	Summary *Parked `json:"summary,omitempty"`
	// Speaker is the member that has the conversation, Next whom the last message hands it to.
	Speaker string `json:"speaker,omitempty"`
	Next    string `json:"next,omitempty"`
	// Sent is what models are sent of the messages.
	Sent []Sent `json:"sent,omitempty"`
	// Summaries counts those that were made of them.
	Summaries int `json:"summaries,omitempty"`
	// Starts counts the runs that its calls started, so that each has an id of its own.
	Starts []StartCount `json:"starts,omitempty"`
	// Lines are the conversations in which the agents of the node ask each other.
	Lines []CarriedLine `json:"lines,omitempty"`
}

// CarriedLine is a conversation in which a member of a node is asked. Thread is absent where the
// one who asks carries it.
type CarriedLine struct {
	Name     string           `json:"name"`
	N        int              `json:"n"`
	Speaker  string           `json:"speaker"`
	Thread   string           `json:"thread,omitempty"`
	Messages []CarriedMessage `json:"messages,omitempty"`
	Called   int              `json:"called,omitempty"`
	Sent     []Sent           `json:"sent,omitempty"`
}

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
	Entry *RoutingCarry `json:"entry,omitempty"`
}

// StartCount says how often an agent's calls with an id started a run.
type StartCount struct {
	ID string `json:"id"`
	N  int    `json:"n"`
}

// CarriedExecution is an execution that waits, or goes on in the middle.
type CarriedExecution struct {
	Node     string           `json:"node"`
	Step     int              `json:"step"`
	Nth      int              `json:"nth,omitempty"`
	Lineage  string           `json:"lineage,omitempty"`
	Arrivals []CarriedArrival `json:"arrivals"`
	// Resume is set where the execution goes on in its middle.
	Resume *Resume `json:"resume,omitempty"`
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
