package source

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
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
	// Error: the document cannot be compiled.
	Error Severity = iota
	// Warning: the plan may not be what the author meant.
	Warning
	// Info: a note; the document has no problem.
	Info
)

// String returns "error", "warning" or "info".
func (s Severity) String() string {
	return [...]string{"error", "warning", "info"}[s]
}

// MarshalText returns the severity's name, for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Diagnostic is a message about a source document.
type Diagnostic struct {
	File string `json:"file"`
	// Line and Col count from 1; 0 means the entire document. Col counts bytes.
	Line     int      `json:"line"`
	Col      int      `json:"col"`
	Severity Severity `json:"severity"`
	// Text describes the problem, with the offending value.
	Text string `json:"text"`
	// Help describes how to fix it; may be empty.
	Help string `json:"help,omitempty"`
	// Code identifies the rule, such as "V2", "L1" or "duplicate-key".
	Code string `json:"code"`
	// About are names in Text, for callers that format the message differently: for an error of an MCP
	// server, the server and its ref or config.
	About [2]string `json:"-"`
}

// String formats the diagnostic as file:line:col: severity: text [code], followed by the help on
// a second line that begins with a tab. Control characters are replaced.
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

// oneLine replaces characters that could break the line or move a terminal's cursor.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
}

// SortDiagnostics sorts by file and position, then severity, code and text.
func SortDiagnostics(diags []Diagnostic) {
	slices.SortStableFunc(diags, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
	})
}

// MaxDiagnostics is the maximum number of diagnostics for a document.
const MaxDiagnostics = 2000

// LimitDiagnostics truncates to [MaxDiagnostics]. The last one then states how many were omitted, with the
// highest severity of these.
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

// Listed formats names for a message: at most so many, and the number of the others.
func Listed(names []string, limit int) string {
	if len(names) == 0 {
		return "none"
	}
	more := ""
	if len(names) > limit {
		more = fmt.Sprintf(" and %d more", len(names)-limit)
		names = names[:limit]
	}
	return strings.Join(Map(names, Quote), ", ") + more
}

// maxQuoted is the maximum number of bytes of an author's text in a message.
const maxQuoted = 80

// Quote formats an author's text for a message: quoted, on one line, truncated if long.
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

// Describe formats a value for a message: a scalar by its text, truncated if long, anything else by its kind.
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

// Reporter collects diagnostics about a document and the files around it. The zero value is ready
// to use.
type Reporter struct {
	// Strict makes the diagnostics of [Reporter.Strictf] errors.
	Strict bool
	// Diags are the diagnostics in the order in which they were reported, without duplicates.
	Diags []Diagnostic
	// Errors is the number of errors in Diags.
	Errors int
	// Max limits the length of Diags; 0 means no limit. Dropped counts the others. The first error is never dropped.
	Max, Dropped int

	seen     map[Diagnostic]bool
	searches int
	// suggesters are used by [Reporter.DidYouMean], by what they search.
	suggesters map[string]*Suggester
}

// Report adds a diagnostic.
func (r *Reporter) Report(d Diagnostic) {
	if r.seen[d] {
		return
	}
	if r.Max > 0 && len(r.Diags) >= r.Max && (d.Severity != Error || r.Errors > 0) {
		r.Dropped++
		return
	}
	if r.seen == nil {
		r.seen = map[Diagnostic]bool{}
	}
	r.seen[d] = true
	if d.Severity == Error {
		r.Errors++
	}
	r.Diags = append(r.Diags, d)
}

// At returns a diagnostic at a position.
func (s Severity) At(at Pos, code, help, format string, args ...any) Diagnostic {
	return Diagnostic{File: at.File, Line: at.Line, Col: at.Col, Severity: s, Code: code, Help: help, Text: fmt.Sprintf(format, args...)}
}

// Errorf reports an error.
func (r *Reporter) Errorf(at Pos, code, help, format string, args ...any) {
	r.Report(Error.At(at, code, help, format, args...))
}

// Warnf reports a warning.
func (r *Reporter) Warnf(at Pos, code, help, format string, args ...any) {
	r.Report(Warning.At(at, code, help, format, args...))
}

// Infof reports a note.
func (r *Reporter) Infof(at Pos, code, help, format string, args ...any) {
	r.Report(Info.At(at, code, help, format, args...))
}

// Strictf reports an error if the reporter is strict, else a warning.
func (r *Reporter) Strictf(at Pos, code, help, format string, args ...any) {
	if r.Strict {
		r.Errorf(at, code, help, format, args...)
	} else {
		r.Warnf(at, code, help, format, args...)
	}
}

// maxNearSearches is the maximum number of searches of [Reporter.Near] in a document.
const maxNearSearches = 200

// Near returns the name that an author may have meant, or "". It does not call names once the number
// of searches exceeds its limit.
func (r *Reporter) Near(name string, names func() []string) string {
	if r.searches++; r.searches > maxNearSearches {
		return ""
	}
	return NewSuggester(names()).Nearest(name)
}

// ListedNames is the maximum number of names in a message.
const ListedNames = 12

// DidYouMean returns the help for an unknown name: the known one that the author may have meant, or
// what followed by the first known ones. Calls with the same what must pass the same known names.
func (r *Reporter) DidYouMean(name string, known []string, what string) string {
	s := r.suggesters[what]
	if s == nil {
		if r.suggesters == nil {
			r.suggesters = map[string]*Suggester{}
		}
		s = NewSuggester(known)
		r.suggesters[what] = s
	}
	if near := s.Nearest(name); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return what + ": " + Listed(known, ListedNames)
}

// CheckSchema reports the errors in a JSON Schema and in its defaults; see [CheckSchema] and [InvalidDefaults].
func (r *Reporter) CheckSchema(v *Value, code, name string) { r.CheckSchemaAt(v, Pos{}, code, name) }

// CheckSchemaAt is like CheckSchema but reports all errors at one position, unless it is zero.
func (r *Reporter) CheckSchemaAt(v *Value, at Pos, code, name string) {
	problems := CheckSchema(v)
	for _, p := range problems {
		r.Errorf(cmp.Or(at, p.Pos), code, p.Help, "%s: %s", name, p.Text)
	}
	if len(problems) > 0 {
		return
	}
	for _, m := range InvalidDefaults(v) {
		r.Warnf(cmp.Or(at, m.Default.Pos), CodeDefault, "use a value that the schema allows", "%s: a default does not match its schema: %s", name, m.Text())
	}
}

// ServerURL parses the URL of an HTTP server; ok is false if it is invalid or has another scheme.
func ServerURL(address string) (u *url.URL, ok bool) {
	u, err := url.Parse(address)
	return u, err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// IsHeader reports whether a name and a value are valid as an HTTP header.
func IsHeader(name, value string) bool {
	return headerName.MatchString(name) && !strings.ContainsAny(value, "\r\n\x00")
}

// CheckAddress reports an address that is not the URL of an HTTP server or that contains a user name or
// password, which the message does not repeat. Secret is the help for the latter.
func (r *Reporter) CheckAddress(at Pos, code, name, address, secret string) {
	u, ok := ServerURL(address)
	switch {
	case !ok:
		r.Errorf(at, code, "use the server's address, such as https://tools.example.com/mcp", "%s is not an http or https URL", name)
	case u.User != nil:
		r.Errorf(at, code, secret, "%s contains a user name or password", name)
	}
}

// ConnectionLine returns the line of weft.yaml that configures a connection. An empty or invalid
// address becomes a placeholder; a user name and password become a placeholder in the headers.
func ConnectionLine(id, address string) string {
	if id == "" {
		id = "ID"
	}
	u, err := url.Parse(address)
	if address == "" || err != nil {
		return fmt.Sprintf("connections: {%q: {url: \"https://HOST/mcp\"}}", id)
	}
	if u.User == nil {
		return fmt.Sprintf("connections: {%q: {url: %q}}", id, u)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return fmt.Sprintf("connections: {%q: {url: %q, headers: {Authorization: \"Basic ${TOKEN}\"}}}", id, u)
}

// CommandLine returns the line of weft.yaml that configures a connection to a program.
func CommandLine(id string) string {
	return fmt.Sprintf("connections: {%q: {transport: stdio, command: PROGRAM, args: []}}", id)
}

// SafeName replaces all characters by _ except the letters, digits, _ and - that every provider
// accepts in the name of a tool.
func SafeName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
}

// Suggester finds the name that an author may have meant. The zero value is not usable.
type Suggester struct {
	names     []string
	folded    map[string]string
	remaining int
}

// Limits of the search for a misspelt name, which bound its cost. Beyond them only names that
// differ in case and punctuation are found.
const (
	maxSearches      = 20
	maxSearchedNames = 2000
	maxSearchedBytes = 40
)

// NewSuggester returns a suggester of the names.
func NewSuggester(names []string) *Suggester {
	s := &Suggester{names: names, folded: make(map[string]string, len(names)), remaining: maxSearches}
	for _, n := range names {
		f := Fold(n)
		if _, ok := s.folded[f]; !ok {
			s.folded[f] = n
		}
	}
	return s
}

// Nearest returns the known name that differs from a wrong one in case, punctuation or at
// limit two letters (swapped neighbours count as one), or "".
func (s *Suggester) Nearest(name string) string {
	if n, ok := s.folded[Fold(name)]; ok && Fold(name) != "" {
		return n
	}
	if s.remaining == 0 || len(name) > maxSearchedBytes || len(s.names) > maxSearchedNames {
		return ""
	}
	s.remaining--
	limit := min(2, (len(name)-1)/3)
	best := ""
	for _, n := range s.names {
		if d := distance(name, n, limit); d <= limit {
			best, limit = n, d-1
		}
	}
	return best
}

// Fold converts a name to lower case and removes all but letters and digits.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// distance returns the number of insertions, deletions, replacements and swaps from a to b, or limit+1 if there are more.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit || limit < 0 {
		return limit + 1
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	last := 0 // the minimum of the row above
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, before
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			row[j] = min(above[j], row[j-1]) + 1
			if a[i-1] == b[j-1] {
				row[j] = min(row[j], above[j-1])
			} else {
				row[j] = min(row[j], above[j-1]+1)
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > limit && last >= limit {
			return limit + 1
		}
		last = least
	}
	return row[len(b)]
}
