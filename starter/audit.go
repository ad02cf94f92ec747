package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/worker/config"
)

// What became of a request.
const (
	auditAnswered   = "answered"
	auditRemembered = "remembered"
	auditExpired    = "expired"
	auditClosed     = "closed"
	auditOpen       = "open"
	auditSent       = "sent"
)

// What became of an answer.
const (
	answerTaken    = "accepted"
	answerRefused  = "refused"
	answerRepeated = "repeated"
	answerPending  = "pending"
	// answerUnconfirmed: a signal leaves no word of what became of it.
	answerUnconfirmed = "unconfirmed"
)

// audited is the trail of a run: what it asked, and who answered what.
type audited struct {
	Run string `json:"run"`
	// Runs are the ids of the runs that it was, in their order: it may have continued as new.
	Runs     []string   `json:"runs"`
	Flow     string     `json:"flow,omitempty"`
	FlowHash string     `json:"flow_hash,omitempty"`
	Status   string     `json:"status"`
	Began    time.Time  `json:"began"`
	Ended    *time.Time `json:"ended,omitempty"`
	// Incomplete says what the trail lacks, "" where it is whole.
	Incomplete string          `json:"incomplete,omitempty"`
	Requests   []*auditRequest `json:"requests"`
}

// auditRequest is a request, or a message that answered none.
type auditRequest struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Outcome is answered, remembered (as an earlier answer says), expired (nobody answered in
	// time), closed (nobody waits for it any more), open, or sent, of a message without a request.
	Outcome string `json:"outcome"`
	// Hash is the SHA-256 of what was asked, of which the id ends with the first 8 digits.
	// Bound says that it was computed again from the text or call shown here, and is the same.
	Hash  string `json:"hash,omitempty"`
	Bound bool   `json:"bound"`
	// Hashed is the very text that was bound, so that others can compute Hash: it is the SHA-256 of
	// the kind, the id without "-" and these digits, and the SHA-256 of Hashed, a line each.
	Hashed string `json:"hashed,omitempty"`
	// Asked is what was asked; it is empty where the history does not tell.
	Asked      string          `json:"asked,omitempty"`
	Tool       string          `json:"tool,omitempty"`
	Name       string          `json:"name,omitempty"`
	Connection string          `json:"connection,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Execution  string          `json:"execution,omitempty"`
	At         string          `json:"at,omitempty"`
	// Workflow is the run that waited.
	Workflow string     `json:"workflow,omitempty"`
	AskedAt  *time.Time `json:"asked_at,omitempty"`
	EndedAt  *time.Time `json:"ended_at,omitempty"`
	// Answers are all that were sent, those that were not taken too.
	Answers []auditAnswer `json:"answers"`

	// waits: the run's worker says that it is open.
	waits bool
}

// auditAnswer is an answer as somebody sent it.
type auditAnswer struct {
	// Status is accepted, refused, repeated (it changed nothing), pending, or unconfirmed, of a
	// signal: it leaves no word of what became of it.
	Status string `json:"status"`
	// By is who sent it, as claimed; Identity is the client's that sent it, as Temporal recorded it.
	By       string    `json:"by,omitempty"`
	Identity string    `json:"identity"`
	Time     time.Time `json:"time"`
	// Via is update or signal; Event is the event of Run that has it.
	Via   string `json:"via"`
	Run   string `json:"run"`
	Event int64  `json:"event"`
	// Answer is what was sent, Hash its SHA-256.
	Answer json.RawMessage `json:"answer"`
	Hash   string          `json:"hash"`
	// Refusal says why it was refused.
	Refusal string `json:"refusal,omitempty"`

	update string
}

// audit prints what a run asked, and who answered what. It is read from history; a worker adds
// what is open.
func (a *app) audit(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	l := newLedger(temporal.Client, args[0])
	if err := l.read(ctx, about.run); err != nil {
		return err
	}
	a.stillOpen(ctx, temporal, about, l)
	out := l.trail()
	out.Status = statusName(about.status)
	switch a.flags.output {
	case outputJSON:
		a.object(out)
	case outputLines:
		for _, r := range out.Requests {
			a.object(r)
		}
	default:
		fmt.Fprint(a.stdout, auditText(out))
	}
	if out.Incomplete != "" {
		a.say("warning: %s", out.Incomplete)
	}
	return nil
}

// stillOpen adds what an open run waits for: that is in its worker's memory, and in history only
// where a branch or a sub-agent waits. What a closed run has open nobody waits for any more.
func (a *app) stillOpen(ctx context.Context, t *config.Temporal, about about, l *ledger) {
	if l.ended = about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING; l.ended {
		return
	}
	var st contract.Status
	about.patience = closedTimeout
	if err := ask(ctx, t, l.out.Run, about, contract.QueryStatus, &st); err != nil {
		l.out.Incomplete = joined(l.out.Incomplete, fmt.Sprintf("no worker answers for the run %q: what it waits for itself and nobody has answered is not shown", l.out.Run))
		return
	}
	for i := range st.Requests {
		q := &st.Requests[i]
		l.announced(q, q.OpenedAt)
		l.byID[q.ID].waits = true
	}
	if st.MoreRequests > 0 {
		l.out.Incomplete = joined(l.out.Incomplete, fmt.Sprintf("the run waits for %d more than its worker lists at once: what it asked itself is not all shown", st.MoreRequests))
	}
}

func joined(one, other string) string {
	if one == "" {
		return other
	}
	return one + "; " + other
}
