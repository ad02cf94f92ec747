package source

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Severity is the effect of a diagnostic on the document.
type Severity uint8

// The severities.
const (
	// Error: the document gives no plan.
	Error Severity = iota
	// Warning: the plan may not be what the author meant.
	Warning
	// Info: nothing is wrong.
	Info
)

// String is "error", "warning" or "info".
func (s Severity) String() string {
	return [...]string{"error", "warning", "info"}[s]
}

// MarshalText is the severity's name, for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Diagnostic is a message about a source document.
type Diagnostic struct {
	File string `json:"file"`
	// Line and Col count from 1; 0 means the whole document. Col counts bytes.
	Line     int      `json:"line"`
	Col      int      `json:"col"`
	Severity Severity `json:"severity"`
	// Text describes the problem, with the offending value.
	Text string `json:"text"`
	// Help describes how to fix it; may be empty.
	Help string `json:"help,omitempty"`
	// Code is the rule, such as "V2", "L1" or "duplicate-key".
	Code string `json:"code"`
	// About are names in the text, for callers that show it in a shape of their own: of an MCP
	// server's error the server and its ref or config.
	About [2]string `json:"-"`
}

// String renders the diagnostic as file:line:col: severity: text [code], and the help as
// a second line that begins with a tab. Control characters in file and text are replaced.
func (d Diagnostic) String() string {
	var b strings.Builder
	b.WriteString(oneLine(cmp.Or(d.File, "document")))
	if d.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", d.Line, d.Col)
	}
	fmt.Fprintf(&b, ": %s: %s [%s]", d.Severity, oneLine(d.Text), d.Code)
	if d.Help != "" {
		b.WriteString("\n\t" + oneLine(d.Help))
	}
	return b.String()
}

// oneLine replaces what could move a terminal's cursor.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
}

// SortDiagnostics orders by file and place, then severity, code and text.
func SortDiagnostics(diags []Diagnostic) {
	slices.SortStableFunc(diags, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
	})
}

// MaxDiagnostics is how many diagnostics one document gets.
const MaxDiagnostics = 2000

// LimitDiagnostics cuts what is beyond [MaxDiagnostics] and says so in the last one, which
// is as severe as the worst that was cut.
func LimitDiagnostics(diags []Diagnostic) []Diagnostic {
	if len(diags) <= MaxDiagnostics {
		return diags
	}
	cut := diags[MaxDiagnostics-1:]
	last := cut[0]
	for i := range cut {
		last.Severity = min(last.Severity, cut[i].Severity)
	}
	last.Code, last.Help = CodeMore, "fix the problems above first"
	last.Text = fmt.Sprintf("%d more diagnostics were omitted from here on", len(cut))
	return append(diags[:MaxDiagnostics-1:MaxDiagnostics-1], last)
}

// HasErrors reports whether a diagnostic is an error.
func HasErrors(diags []Diagnostic) bool {
	return slices.ContainsFunc(diags, func(d Diagnostic) bool { return d.Severity == Error })
}

// Listed renders names for a message: at most so many, and how many more there are.
func Listed(names []string, most int) string {
	if len(names) == 0 {
		return "none"
	}
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = Quote(n)
	}
	return strings.Join(quoted, ", ") + more
}

// maxQuoted is how many bytes of an author's text a message repeats.
const maxQuoted = 80

// Quote renders an author's text for a message: quoted, on one line, cut when long.
func Quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "..."
}

// Describe renders a value for a message: its text where it is short, else its kind.
func (v *Value) Describe() string {
	switch v.Kind {
	case String:
		return Quote(v.Text)
	case Number:
		if len(v.Text) > maxQuoted {
			return v.Text[:maxQuoted] + "..."
		}
		return v.Text
	case Bool:
		return strconv.FormatBool(v.True)
	case Null:
		return "null"
	}
	return v.Kind.String()
}
