package model

import (
	"fmt"

	"weft/specadapter/source"
)

// maxKept bounds the diagnostics that are held before they are sorted and cut.
const maxKept = 8 * source.MaxDiagnostics

// diagnostics sorts the diagnostics by file, in the order given, and by place.
func (l *loader) diagnostics() []source.Diagnostic {
	var out []source.Diagnostic
	for _, file := range l.files {
		var part []source.Diagnostic
		for i := range l.Diags {
			if l.Diags[i].File == file.name {
				part = append(part, l.Diags[i])
			}
		}
		source.SortDiagnostics(part)
		out = append(out, part...)
	}
	if l.Dropped > 0 {
		out = append(out, source.Diagnostic{File: l.files[0].name, Severity: source.Warning, Code: source.CodeMore,
			Text: fmt.Sprintf("%d more diagnostics were left out", l.Dropped), Help: "fix the problems above first"})
	}
	return source.LimitDiagnostics(out)
}

// work counts steps of checks that are not linear. False means that the limit is exceeded.
func (l *loader) work(at source.Pos, steps int) bool {
	if l.steps > maxSteps {
		return false
	}
	l.steps += steps
	if l.steps > maxSteps {
		l.Errorf(at, "too-complex", "split the document, or simplify the types in it", "the checks of the document take more than %d steps", maxSteps)
		return false
	}
	return true
}
