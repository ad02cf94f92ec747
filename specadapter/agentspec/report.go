package agentspec

import (
	"fmt"

	"weft/specadapter/source"
)

// Place is a position in one of the files of a document.
type Place struct {
	File string
	source.Pos
}

// maxKept bounds the diagnostics that are held before they are sorted and cut.
const maxKept = 8 * source.MaxDiagnostics

func (l *loader) report(s source.Severity, at Place, code, help, format string, args []any) {
	d := source.Diagnostic{File: at.File, Line: at.Line, Col: at.Col, Severity: s,
		Code: code, Help: help, Text: fmt.Sprintf(format, args...)}
	if l.told[d] {
		return
	}
	if len(l.diags) >= maxKept && (s != source.Error || l.failed) {
		l.dropped++
		return
	}
	l.told[d] = true
	l.failed = l.failed || s == source.Error
	l.diags = append(l.diags, d)
}

func (l *loader) errorf(at Place, code, help, format string, args ...any) {
	l.report(source.Error, at, code, help, format, args)
}

func (l *loader) warnf(at Place, code, help, format string, args ...any) {
	l.report(source.Warning, at, code, help, format, args)
}

func (l *loader) infof(at Place, code, help, format string, args ...any) {
	l.report(source.Info, at, code, help, format, args)
}

// strictf is an error in the strict profile and a warning else.
func (l *loader) strictf(at Place, code, help, format string, args ...any) {
	s := source.Warning
	if l.strict {
		s = source.Error
	}
	l.report(s, at, code, help, format, args)
}

// diagnostics sorts what was reported: the files in the order in which they were given, in
// each by place.
func (l *loader) diagnostics() []source.Diagnostic {
	var out []source.Diagnostic
	for _, file := range l.files {
		var part []source.Diagnostic
		for i := range l.diags {
			if l.diags[i].File == file.name {
				part = append(part, l.diags[i])
			}
		}
		source.SortDiagnostics(part)
		out = append(out, part...)
	}
	if l.dropped > 0 {
		out = append(out, source.Diagnostic{File: l.files[0].name, Severity: source.Warning, Code: source.CodeMore,
			Text: fmt.Sprintf("%d more diagnostics were left out", l.dropped), Help: "mend what is above first"})
	}
	return source.LimitDiagnostics(out)
}

// work counts steps of the checks whose cost is not linear in the document. False means
// that the bound is exceeded, which is reported once.
func (l *loader) work(at Place, steps int) bool {
	if l.steps > maxSteps {
		return false
	}
	l.steps += steps
	if l.steps > maxSteps {
		l.errorf(at, "too-complex", "split the document, or simplify the types in it", "the checks of the document take more than %d steps", maxSteps)
		return false
	}
	return true
}

// Bounds of the search for what an author may have meant: how often it is made, and among
// how many names of references.
const (
	maxGuesses = 200
	maxGuessed = 2000
)

// near finds the name that an author may have meant, or "". names is called only while
// there are guesses left.
func (l *loader) near(wrong string, names func() []string) string {
	if l.guesses++; l.guesses > maxGuesses {
		return ""
	}
	return source.NewSuggester(names()).Nearest(wrong)
}
