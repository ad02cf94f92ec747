package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// auditText shows a trail to people.
func auditText(out *audited) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run       %s, %s\n", clean(out.Run, 300), out.Status)
	if out.Flow != "" {
		fmt.Fprintf(&b, "flow      %s, hash %s\n", clean(out.Flow, 200), clean(out.FlowHash, 100))
	}
	if len(out.Requests) == 0 {
		b.WriteString("it asked nothing, and nobody sent it anything\n")
	}
	for _, r := range out.Requests {
		b.WriteByte('\n')
		auditBlock(&b, r)
	}
	return b.String()
}

// auditBlock shows a request with its answers.
func auditBlock(b *strings.Builder, r *auditRequest) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(b, "  %-10s%s\n", label, fmt.Sprintf(format, args...))
	}
	stamp := func(t *time.Time) string {
		if t == nil || t.IsZero() {
			return "at a time that history does not tell"
		}
		return t.Local().Format(time.DateTime)
	}
	fmt.Fprintf(b, "%s  %s  %s\n", orDash(r.Kind), orDash(printable(r.ID)), r.Outcome)
	if r.Outcome != auditSent {
		asked := "history does not tell what"
		if r.Asked != "" {
			asked = clean(r.Asked, 2000)
		}
		line("asked", "%s: %s", stamp(r.AskedAt), asked)
		if len(r.Arguments) > 0 {
			line("arguments", "%s", clean(string(r.Arguments), 4000))
		}
		switch {
		case r.Bound:
			line("hash", "%s, of what is shown here", r.Hash)
		case r.Hash != "":
			line("hash", "%s, as recorded", clean(r.Hash, 100))
		}
	}
	for i := range r.Answers {
		x := &r.Answers[i]
		by := orDash(clean(x.By, 200))
		line("answer", "%s by %s (%s, %s): %s", stamp(&x.Time), by, clean(x.Identity, 200), x.Via, x.Status)
		line("", "%s", clean(string(essence(x.Answer)), 4000))
		line("", "hash %s", x.Hash)
		if x.Refusal != "" {
			line("", "refused: %s", clean(x.Refusal, 500))
		}
	}
	if len(r.Answers) == 0 && r.EndedAt != nil {
		line("ended", "%s: %s", stamp(r.EndedAt), map[string]string{
			auditExpired: "nobody answered in time", auditClosed: "nobody waits for it any more",
			auditRemembered: "as an earlier answer says, which was to be remembered"}[r.Outcome])
	}
}

// essence is an answer without what is shown beside it.
func essence(raw json.RawMessage) json.RawMessage {
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
