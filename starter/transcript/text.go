package transcript

import (
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/starter/plaintext"
)

// Text shows threads, a line under another.
func Text(threads []Thread) string {
	var b strings.Builder
	for i, t := range threads {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "== %s\n", plaintext.Line(t.Thread, 200))
		for n, m := range t.Messages {
			for _, s := range t.Fallbacks {
				if s.N == n {
					fmt.Fprintf(&b, "(switched from %s to %s: %s: %s)\n", plaintext.Line(s.Model, 100), plaintext.Line(s.To, 100), plaintext.Line(s.Class, 40), plaintext.Line(s.Text, 300))
				}
			}
			b.WriteString(messageText(m))
		}
	}
	return b.String()
}

// messageText shows a message: its role, then the text, indented.
func messageText(m *contract.Message) string {
	if m == nil {
		return "?\n  (a message that is not in the history, or that cannot be read here)\n"
	}
	var b strings.Builder
	b.WriteString(plaintext.Line(m.Role, 20))
	if m.Name != "" {
		b.WriteString(" " + plaintext.Line(m.Name, 64))
	}
	if m.Error {
		b.WriteString(", error")
	}
	b.WriteByte('\n')
	if m.Text != "" {
		for _, line := range strings.Split(strings.TrimRight(plaintext.Lines(m.Text), "\n"), "\n") {
			b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
		}
	}
	for _, c := range m.Calls {
		fmt.Fprintf(&b, "  → %s %s\n", plaintext.Line(c.Name, 64), plaintext.Lines(strings.ReplaceAll(c.Arguments, "\n", " ")))
	}
	return b.String()
}
