package source

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// Reporter collects what is wrong with a document and the files around it. The zero value is ready
// to use.
type Reporter struct {
	// Strict makes the diagnostics of [Reporter.Strictf] errors.
	Strict bool
	// Diags are the diagnostics in the order in which they were reported, each once.
	Diags []Diagnostic
	// Errors counts those that are errors.
	Errors int
	// Most bounds Diags, 0 not at all; Dropped counts the diagnostics beyond. The first error is never dropped.
	Most, Dropped int

	seen    map[Diagnostic]bool
	guesses int
	// suggesters are those of [Reporter.DidYouMean].
	suggesters map[string]*Suggester
}

// Report adds a diagnostic.
func (r *Reporter) Report(d Diagnostic) {
	if r.seen[d] {
		return
	}
	if r.Most > 0 && len(r.Diags) >= r.Most && (d.Severity != Error || r.Errors > 0) {
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

// Infof reports something that is not wrong.
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

// maxGuesses bounds how often [Reporter.Near] searches in one document.
const maxGuesses = 200

// Near returns the name that an author may have meant, or "". Names is called only while there are
// searches left.
func (r *Reporter) Near(wrong string, names func() []string) string {
	if r.guesses++; r.guesses > maxGuesses {
		return ""
	}
	return NewSuggester(names()).Nearest(wrong)
}

// ListedNames is how many names a message repeats.
const ListedNames = 12

// DidYouMean is the help for an unknown name: the known one that the author may have meant, or the
// first of all, behind what they are. One search is prepared for each what.
func (r *Reporter) DidYouMean(wrong string, known []string, what string) string {
	s := r.suggesters[what]
	if s == nil {
		if r.suggesters == nil {
			r.suggesters = map[string]*Suggester{}
		}
		s = NewSuggester(known)
		r.suggesters[what] = s
	}
	if near := s.Nearest(wrong); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return what + ": " + Listed(known, ListedNames)
}

// CheckSchema reports what is wrong with a JSON Schema, and with its defaults; see [CheckSchema] and [Misfits].
func (r *Reporter) CheckSchema(v *Value, code, name string) { r.CheckSchemaAt(v, Pos{}, code, name) }

// CheckSchemaAt is CheckSchema for a schema whose faults are reported at one place.
func (r *Reporter) CheckSchemaAt(v *Value, at Pos, code, name string) {
	problems := CheckSchema(v)
	for _, p := range problems {
		r.Errorf(cmp.Or(at, p.Pos), code, p.Help, "%s: %s", name, p.Text)
	}
	if len(problems) > 0 {
		return
	}
	for _, m := range Misfits(v) {
		r.Warnf(cmp.Or(at, m.Default.Pos), CodeDefault, "use a value that the schema allows", "%s: a default does not fit its schema: %s", name, m.Text())
	}
}

// ServerURL parses the address of an HTTP server; ok is false for any other text.
func ServerURL(address string) (u *url.URL, ok bool) {
	u, err := url.Parse(address)
	return u, err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// IsHeader reports whether a name and a value can be a header of a request.
func IsHeader(name, value string) bool {
	return headerName.MatchString(name) && !strings.ContainsAny(value, "\r\n\x00")
}

// CheckAddress reports an address that is not that of an HTTP server, and one with a user name or
// password, which it does not repeat. Secret is the help for the latter.
func (r *Reporter) CheckAddress(at Pos, code, name, address, secret string) {
	u, ok := ServerURL(address)
	switch {
	case !ok:
		r.Errorf(at, code, "use the server's address, such as https://tools.example.com/mcp", "%s is not an http or https URL", name)
	case u.User != nil:
		r.Errorf(at, code, secret, "%s contains a user name or password", name)
	}
}

// ConnectionLine is the line of weft.yaml that gives a worker a connection of its own: at an
// address, without user and password, which belong into its headers, or at one that the
// operator fills in.
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

// CommandLine is the line of weft.yaml that lets a worker start a program as a connection.
func CommandLine(id string) string {
	return fmt.Sprintf("connections: {%q: {transport: stdio, command: PROGRAM, args: []}}", id)
}

// SafeName replaces by _ all but the letters, digits, _ and - that every provider accepts in the
// name of a tool.
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
	names  []string
	folded map[string]string
	left   int
}

// Bounds of the search for a misspelt name, so that its cost stays small whatever a
// document holds; beyond them only names that differ in case and punctuation are found.
const (
	maxSearches      = 20
	maxSearchedNames = 2000
	maxSearchedBytes = 40
)

// NewSuggester knows some names.
func NewSuggester(names []string) *Suggester {
	s := &Suggester{names: names, folded: make(map[string]string, len(names)), left: maxSearches}
	for _, n := range names {
		f := Fold(n)
		if _, ok := s.folded[f]; !ok {
			s.folded[f] = n
		}
	}
	return s
}

// Nearest returns the known name that differs from a wrong one in case, punctuation or at
// most two letters, two neighbours that changed places being one, or "".
func (s *Suggester) Nearest(wrong string) string {
	if n, ok := s.folded[Fold(wrong)]; ok && Fold(wrong) != "" {
		return n
	}
	if s.left == 0 || len(wrong) > maxSearchedBytes || len(s.names) > maxSearchedNames {
		return ""
	}
	s.left--
	limit := min(2, (len(wrong)-1)/3)
	best := ""
	for _, n := range s.names {
		if d := distance(wrong, n, limit); d <= limit {
			best, limit = n, d-1
		}
	}
	return best
}

// Fold reduces a name to its lower-case letters and digits.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// distance counts insertions, deletions, replacements and swaps from a to b, up to a limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit || limit < 0 {
		return limit + 1
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	last := 0 // the least of the row above
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
