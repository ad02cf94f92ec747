package compare

import (
	"fmt"
	"strings"

	"weft/starter/plaintext"
)

// Text shows two runs: a block for each execution, with a line for each run.
func Text(v *Table) string {
	var b strings.Builder
	width := max(len(plaintext.Lines(v.Runs[0])), len(plaintext.Lines(v.Runs[1])))
	line := func(side int, format string, args ...any) {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, plaintext.Lines(v.Runs[side]), fmt.Sprintf(format, args...))
	}
	for _, row := range v.Nodes {
		fmt.Fprintf(&b, "%s\n", plaintext.Line(row.Execution, 200))
		for side, s := range row.Sides {
			switch {
			case s == nil:
				line(side, "did not run")
			case s.Given:
				line(side, "given in place of the other run's  %s", plaintext.Line(s.Text, 200))
			case s.Recorded:
				line(side, "taken from the other run")
			default:
				line(side, "%6d + %5d tokens %7.1f s  %s", s.Input, s.Output, s.Seconds, plaintext.Line(s.Text, 200))
			}
		}
	}
	b.WriteString("all\n")
	for side, t := range v.Total {
		text := string(t.Data)
		if t.Text != nil {
			text = *t.Text
		}
		line(side, "%6d + %5d tokens %7.1f s  %s, %d model calls: %s", t.Input, t.Output, t.Seconds, t.Status, t.Calls, plaintext.Line(text, 300))
	}
	return b.String()
}
