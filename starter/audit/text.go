package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"weft/starter/plaintext"
)

// Text shows a trail.
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
	fmt.Fprintf(b, "%s  %s  %s\n", orDash(r.Kind), orDash(plaintext.Lines(r.ID)), r.Outcome)
	if r.Outcome != Sent {
		asked := "not in the history"
		if r.Asked != "" {
			asked = plaintext.Line(r.Asked, 2000)
		}
		line("asked", "%s: %s", stamp(r.AskedAt), asked)
		if len(r.Arguments) > 0 {
			line("arguments", "%s", plaintext.Line(string(r.Arguments), 4000))
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
		by := orDash(plaintext.Line(x.By, 200))
		line("answer", "%s by %s (%s, %s): %s", stamp(&x.Time), by, plaintext.Line(x.Identity, 200), x.Via, x.Status)
		line("", "%s", plaintext.Line(string(withoutMetadata(x.Answer)), 4000))
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

// withoutMetadata is an answer without what is shown beside it.
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

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
