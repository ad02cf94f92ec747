package rehearse

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
)

// Delivery is what one of the runs received in one workflow task. Its order matters: the first of several parallel calls to
// fail cancels the others, and the prompts and results with which a turn begins depend on what had been received when the
// previous turn ended. A replay repeats the deliveries in the recorded order.
type Delivery struct {
	// Run is the path of the run, "" for the recorded run itself.
	Run string `json:"run,omitempty"`
	// Ended are the paths of calls of the run that had ended.
	Ended []string `json:"ended,omitempty"`
	// Closed are child runs that had ended.
	Closed []ClosedRun `json:"closed,omitempty"`
	// Turns are the states of turns that child sessions reported.
	Turns []Turn `json:"turns,omitempty"`
	// Resumed are the ids of prompts from the parent session.
	Resumed []string `json:"resumed,omitempty"`
	// Prompts are the prompts from clients.
	Prompts []Prompt `json:"prompts,omitempty"`
	// Stop is set if a client closed the session, Cancelled if a client cancelled the recorded run.
	Stop      *contract.CloseSessionInput `json:"stop,omitempty"`
	Cancelled bool                        `json:"cancelled,omitempty"`
	Line      int                         `json:"-"`
}

// Empty reports whether the delivery is empty.
func (d *Delivery) Empty() bool {
	return len(d.Ended)+len(d.Closed)+len(d.Turns)+len(d.Resumed)+len(d.Prompts) == 0 && d.Stop == nil && !d.Cancelled
}

// ClosedRun is a child run that has ended. Status is "terminated" or, however else it ended,
// "ended".
type ClosedRun struct {
	Run    string `json:"run"`
	Status string `json:"status"`
}

// Ended is the status of a run that was not terminated.
const Ended = "ended"

// Prompt is a prompt of a session. ID is the id of its turn, or "".
type Prompt struct {
	ID     string `json:"id,omitempty"`
	Prompt string `json:"prompt"`
	// Media are files for the model.
	Media []contract.Media `json:"images,omitempty"`
}

// Stored returns the message that the run stores for the prompt, to which calls may refer.
func (q *Prompt) Stored() (json.RawMessage, error) {
	return contract.InputMessage(q.Prompt, q.Media).Encode()
}

// Turn is the state of a turn of a session.
type Turn struct {
	// Session is the path of the session; absent for the recorded run itself.
	Session string `json:"session,omitempty"`
	N       int    `json:"n,omitempty"`
	// Status is the status of a [contract.Turn]. The other fields are the outcome of a turn that
	// has ended; absent ones are not compared.
	Status     string          `json:"status"`
	ResultText *string         `json:"result_text,omitempty"`
	ResultData json.RawMessage `json:"result_data,omitempty"`
	// Class is the class of the failure.
	Class string `json:"class,omitempty"`
	Line  int    `json:"-"`
}

// NewTurn converts a turn to its recorded form.
func NewTurn(session string, t *contract.Turn) Turn {
	out := Turn{Session: session, N: t.N, Status: t.Status, ResultText: t.ResultText, ResultData: t.ResultData}
	if t.Failure != nil {
		out.Class = t.Failure.Class
	}
	return out
}

// key identifies the turn and whether it has ended.
func (t *Turn) key() string {
	done := contract.Turn{Status: t.Status}
	return fmt.Sprintf("%s\n%d\n%t", t.Session, t.N, done.Done())
}

// String names a turn.
func (t *Turn) String() string {
	if t.Session == "" {
		return fmt.Sprintf("turn %d", t.N)
	}
	return fmt.Sprintf("turn %d of the session %s", t.N, t.Session)
}

// compareTurn notes where the outcome of a turn differs from the recorded one.
func (p *player) compareTurn(want, got *Turn) {
	note := func(what, expected, is string) {
		p.noteAt(want.Line, "", what+" of "+want.String(), expected, is)
	}
	switch {
	case want.Status != got.Status:
		note("the status", want.Status, strings.TrimSuffix(got.Status+": "+got.Class, ": "))
	case want.Class != "" && want.Class != got.Class:
		note("the failure", want.Class, got.Class)
	case want.ResultText != nil && *want.ResultText != deref(got.ResultText):
		note("the result", *want.ResultText, resultText(got))
	case len(want.ResultData) > 0 && !EqualJSON(want.ResultData, got.ResultData):
		note("the result", string(want.ResultData), resultText(got))
	}
}

// resultText returns the result of a turn as text.
func resultText(t *Turn) string {
	if len(t.ResultData) > 0 {
		return string(t.ResultData)
	}
	return deref(t.ResultText)
}

// compareTurnsOfFailed compares the turns of a run without a result.
func (p *player) compareTurnsOfFailed(want []Turn) {
	var have []contract.Turn
	if err := p.query(p.rec.ID, &have, contract.QueryTurns); err != nil {
		p.noteAt(want[0].Line, "", "the turns", want[0].String(), err.Error())
		return
	}
	p.turns = len(slices.DeleteFunc(slices.Clone(have), func(t contract.Turn) bool { return t.N == 0 }))
	p.compareTurns(want, have, false)
}

// compareTurns compares turns: all in order or, unless all is set, those of the recording by number.
func (p *player) compareTurns(want []Turn, have []contract.Turn, all bool) {
	for i := range want {
		k := i
		if !all {
			k = slices.IndexFunc(have, func(t contract.Turn) bool { return t.N == want[i].N })
		}
		if k < 0 || k >= len(have) {
			p.noteAt(want[i].Line, "", "a missing turn", want[i].String()+": "+want[i].Status, fmt.Sprintf("%d turns", p.turns))
			return
		}
		got := NewTurn("", &have[k])
		if want[i].N != got.N {
			p.noteAt(want[i].Line, "", "the turns", want[i].String(), got.String())
			return
		}
		p.compareTurn(&want[i], &got)
	}
	if n := len(want); all && n > 0 && len(have) > n {
		more := NewTurn("", &have[n])
		p.noteAt(want[n-1].Line, "", "a turn that was not recorded", fmt.Sprintf("%d turns", n), more.String()+": "+more.Status)
	}
}
