// Package audit reads the audit trail of a run from its histories: its requests, and who answered them and how.
package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/activities/textutil"
	"weft/starter/plaintext"
)

// Outcomes of requests.
const (
	Answered   = "answered"
	Remembered = "remembered"
	Expired    = "expired"
	Closed     = "closed"
	Open       = "open"
	Sent       = "sent"
)

// Statuses of answers.
const (
	Accepted = "accepted"
	Refused  = "refused"
	Repeated = "repeated"
	Pending  = "pending"
	// Unconfirmed: history does not record whether a signal was accepted.
	Unconfirmed = "unconfirmed"
)

// Trail is the trail of a run: its requests and their answers.
type Trail struct {
	Run string `json:"run"`
	// Runs are the run ids of its continue-as-new chain, in order.
	Runs      []string   `json:"runs"`
	Flow      string     `json:"flow,omitempty"`
	FlowHash  string     `json:"flow_hash,omitempty"`
	Status    string     `json:"status"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	// Incomplete describes what the trail lacks; "" if it is complete.
	Incomplete string     `json:"incomplete,omitempty"`
	Requests   []*Request `json:"requests"`
}

// Request is a request, or a message that answered none.
type Request struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Outcome is answered, remembered (answered by an earlier answer), expired (not answered in
	// time), closed (no longer needed), open, or sent for a message without a request.
	Outcome string `json:"outcome"`
	// Hash is the SHA-256 of the question; the id ends with its first 8 digits.
	// Bound reports whether the hash recomputed from the text or call shown here matches.
	Hash  string `json:"hash,omitempty"`
	Bound bool   `json:"bound"`
	// Hashed is the hashed text, from which Hash can be recomputed: it is the SHA-256 of three lines:
	// the kind, the id without "-" and these digits, and the SHA-256 of Hashed.
	Hashed string `json:"hashed,omitempty"`
	// Asked is the question; "" if the history does not contain it.
	Asked      string          `json:"asked,omitempty"`
	Tool       string          `json:"tool,omitempty"`
	Name       string          `json:"name,omitempty"`
	Connection string          `json:"connection,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Execution  string          `json:"execution,omitempty"`
	At         string          `json:"at,omitempty"`
	// Workflow is the id of the workflow that waited.
	Workflow string     `json:"workflow,omitempty"`
	AskedAt  *time.Time `json:"asked_at,omitempty"`
	EndedAt  *time.Time `json:"ended_at,omitempty"`
	// TakenAt is the workflow time at which the run accepted an answer or the request expired; nil otherwise.
	TakenAt *time.Time `json:"-"`
	// Answers are all answers that were sent, including rejected ones.
	Answers []Answer `json:"answers"`
}

// Answer is an answer as it was sent.
type Answer struct {
	// Status is accepted, refused, repeated (it changed nothing), pending, or unconfirmed for a
	// signal.
	Status string `json:"status"`
	// By is the sender, as claimed; Identity is the client identity that Temporal recorded.
	By string `json:"by,omitempty"`
	// OnBehalfOf is the user for whom it was sent, as claimed to the HTTP server.
	OnBehalfOf string    `json:"on_behalf_of,omitempty"`
	Identity   string    `json:"identity"`
	Time       time.Time `json:"time"`
	// Via is update or signal; Event is the id of its event in Run.
	Via   string `json:"via"`
	Run   string `json:"run"`
	Event int64  `json:"event"`
	// Answer is the payload, Hash its SHA-256.
	Answer json.RawMessage `json:"answer"`
	Hash   string          `json:"hash"`
	// Refusal is the reason why it was refused.
	Refusal string `json:"refusal,omitempty"`

	update string
}

// Taken returns the answer that the run accepted, nil if there is none. History does not record whether a signal was accepted:
// a signal is assumed to be the answer only if no Update was accepted.
func (r *Request) Taken() *Answer {
	for _, status := range []string{Accepted, Unconfirmed} {
		if i := slices.IndexFunc(r.Answers, func(a Answer) bool { return a.Status == status }); i >= 0 {
			return &r.Answers[i]
		}
	}
	return nil
}

// Text formats a trail.
func Text(out *Trail) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run       %s, %s\n", plaintext.Line(out.Run, 300), out.Status)
	if out.Flow != "" {
		fmt.Fprintf(&b, "flow      %s, hash %s\n", plaintext.Line(out.Flow, 200), plaintext.Line(out.FlowHash, 100))
	}
	if len(out.Requests) == 0 {
		b.WriteString("no requests, and no messages\n")
	}
	for _, r := range out.Requests {
		b.WriteByte('\n')
		requestText(&b, r)
	}
	return b.String()
}

func requestText(b *strings.Builder, r *Request) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(b, "  %-10s%s\n", label, fmt.Sprintf(format, args...))
	}
	stamp := func(t *time.Time) string {
		if t == nil || t.IsZero() {
			return "at an unknown time"
		}
		return t.Local().Format(time.DateTime)
	}
	fmt.Fprintf(b, "%s  %s  %s\n", cmp.Or(r.Kind, "-"), cmp.Or(plaintext.Lines(r.ID), "-"), r.Outcome)
	if r.Outcome != Sent {
		line("asked", "%s: %s", stamp(r.AskedAt), cmp.Or(plaintext.Line(r.Asked, 2000), "not in the history"))
		if len(r.Arguments) > 0 {
			line("arguments", "%s", plaintext.Line(string(textutil.Unescape(r.Arguments)), 4000))
		}
		switch {
		case r.Bound:
			line("hash", "%s, of what is shown here", r.Hash)
		case r.Hash != "":
			line("hash", "%s, as recorded", plaintext.Line(r.Hash, 100))
		}
	}
	for i := range r.Answers {
		x := &r.Answers[i]
		by := cmp.Or(plaintext.Line(x.By, 200), "-") + plaintext.If(x.OnBehalfOf != "", " on behalf of %s", plaintext.Line(x.OnBehalfOf, 200))
		line("answer", "%s by %s (%s, %s): %s", stamp(&x.Time), by, plaintext.Line(x.Identity, 200), x.Via, x.Status)
		line("", "%s", plaintext.Line(string(textutil.Unescape(withoutMetadata(x.Answer))), 4000))
		line("", "hash %s", x.Hash)
		if x.Refusal != "" {
			line("", "refused: %s", plaintext.Line(x.Refusal, 500))
		}
	}
	if len(r.Answers) == 0 && r.EndedAt != nil {
		line("ended", "%s: %s", stamp(r.EndedAt), map[string]string{
			Expired: "no answer in time", Closed: "no longer needed",
			Remembered: "decided by a remembered answer"}[r.Outcome])
	}
}

// withoutMetadata returns an answer without the fields that are shown separately.
func withoutMetadata(raw json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return raw
	}
	delete(all, "id")
	delete(all, "by")
	out, err := json.Marshal(all)
	if err != nil {
		return raw
	}
	return out
}
