package rehearse

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
)

// Delivery is what one of the runs was given at once. Where calls are under way beside each other, the first that fails
// ends the others; which prompts and results of other sessions a turn is made of depends on what was there when the one
// before ended. So all of it is given again in the recorded order.
type Delivery struct {
	// Run is the place of the run, "" for the one that is recorded.
	Run string `json:"run,omitempty"`
	// Ended are the places of calls of the run that had ended.
	Ended []string `json:"ended,omitempty"`
	// Closed are runs that the run had started and that had ended.
	Closed []ClosedRun `json:"closed,omitempty"`
	// Turns are how turns of sessions below stood, as they told it themselves.
	Turns []TurnOf `json:"turns,omitempty"`
	// Resumed are the ids of prompts that the session above sent.
	Resumed []string `json:"resumed,omitempty"`
	// Prompts are those that somebody else sent.
	Prompts []Prompt `json:"prompts,omitempty"`
	// Stop is set where somebody stopped the session, Cancelled where somebody cancelled the run that is recorded.
	Stop      *contract.CloseSessionInput `json:"stop,omitempty"`
	Cancelled bool                        `json:"cancelled,omitempty"`
	Line      int                         `json:"-"`
}

// Empty reports whether nothing came.
func (d *Delivery) Empty() bool {
	return len(d.Ended)+len(d.Closed)+len(d.Turns)+len(d.Resumed)+len(d.Prompts) == 0 && d.Stop == nil && !d.Cancelled
}

// ClosedRun is a run that has ended. Status is terminated where somebody else ended it, else
// "ended": how, it says itself.
type ClosedRun struct {
	Run    string `json:"run"`
	Status string `json:"status"`
}

// Ended is the status of a run that came to its own end.
const Ended = "ended"

// Prompt is a session's next prompt. ID is what the turn is called, "" for none.
type Prompt struct {
	ID     string `json:"id,omitempty"`
	Prompt string `json:"prompt"`
	// Images are shown to the model with it.
	Media []contract.Media `json:"images,omitempty"`
}

// Stored is the message that the run stores of it, to which calls may refer.
func (q *Prompt) Stored() (json.RawMessage, error) {
	return contract.InputMessage(q.Prompt, q.Media).Encode()
}

// TurnOf is how a turn of a session stood.
type TurnOf struct {
	// Session is the place of the session; absent for the run that is recorded.
	Session string `json:"session,omitempty"`
	N       int    `json:"n,omitempty"`
	// Status is one of [contract.Turn]'s. Of a turn that has ended the rest is what it gave;
	// what is absent is not compared.
	Status     string          `json:"status"`
	ResultText *string         `json:"result_text,omitempty"`
	ResultData json.RawMessage `json:"result_data,omitempty"`
	// Class is that of the failure.
	Class string `json:"class,omitempty"`
	Line  int    `json:"-"`
}

// NewTurnOf is what a recording has of a turn.
func NewTurnOf(session string, t *contract.Turn) TurnOf {
	out := TurnOf{Session: session, N: t.N, Status: t.Status, ResultText: t.ResultText, ResultData: t.ResultData}
	if t.Failure != nil {
		out.Class = t.Failure.Class
	}
	return out
}

// key tells which turn it is, and whether it begins or ends.
func (t *TurnOf) key() string {
	done := contract.Turn{Status: t.Status}
	return fmt.Sprintf("%s\n%d\n%t", t.Session, t.N, done.Done())
}

// String names a turn.
func (t *TurnOf) String() string {
	if t.Session == "" {
		return fmt.Sprintf("turn %d", t.N)
	}
	return fmt.Sprintf("turn %d of the session %s", t.N, t.Session)
}

// compareTurn notes what a turn gave otherwise than it is recorded.
func (p *player) compareTurn(want, got *TurnOf) {
	note := func(what, expected, is string) {
		p.noteAt(want.Line, "", what+" of "+want.String(), expected, is)
	}
	switch {
	case want.Status != got.Status:
		note("the end", want.Status, strings.TrimSuffix(got.Status+": "+got.Class, ": "))
	case want.Class != "" && want.Class != got.Class:
		note("the failure", want.Class, got.Class)
	case want.ResultText != nil && *want.ResultText != deref(got.ResultText):
		note("the result", *want.ResultText, given(got))
	case len(want.ResultData) > 0 && !Same(want.ResultData, got.ResultData):
		note("the result", string(want.ResultData), given(got))
	}
}

// given is a turn's result for people.
func given(t *TurnOf) string {
	if len(t.ResultData) > 0 {
		return string(t.ResultData)
	}
	return deref(t.ResultText)
}

// turnsBefore compares the turns of a run without a result.
func (p *player) turnsBefore(want []TurnOf) {
	var have []contract.Turn
	if err := p.query(p.rec.ID, &have, contract.QueryTurns); err != nil {
		p.noteAt(want[0].Line, "", "the turns", want[0].String(), err.Error())
		return
	}
	p.took = len(slices.DeleteFunc(slices.Clone(have), func(t contract.Turn) bool { return t.N == 0 }))
	p.turns(want, have, false)
}

// turns compares turns: all of them one by one, else those of the recording by their numbers.
func (p *player) turns(want []TurnOf, have []contract.Turn, all bool) {
	for i := range want {
		k := i
		if !all {
			k = slices.IndexFunc(have, func(t contract.Turn) bool { return t.N == want[i].N })
		}
		if k < 0 || k >= len(have) {
			p.noteAt(want[i].Line, "", "a turn that the run does not accept", want[i].String()+": "+want[i].Status, fmt.Sprintf("%d turns", p.took))
			return
		}
		got := NewTurnOf("", &have[k])
		if want[i].N != got.N {
			p.noteAt(want[i].Line, "", "the turns", want[i].String(), got.String())
			return
		}
		p.compareTurn(&want[i], &got)
	}
	if n := len(want); all && n > 0 && len(have) > n {
		more := NewTurnOf("", &have[n])
		p.noteAt(want[n-1].Line, "", "a turn that is not in the recording", fmt.Sprintf("%d turns", n), more.String()+": "+more.Status)
	}
}
