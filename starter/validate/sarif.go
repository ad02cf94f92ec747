package validate

import (
	"bytes"
	"net/url"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"weft/specadapter/source"
	"weft/worker/build"
)

type object = map[string]any

// SARIF returns the diagnostics as SARIF 2.1.0, which editors and code hosts read.
func (r *Report) SARIF() any {
	version, _ := build.Info()
	var codes []string
	rules, results := []object{}, []object{}
	for i := range r.Files {
		f := &r.Files[i]
		for _, d := range f.Diagnostics {
			rule := slices.Index(codes, d.Code)
			if rule < 0 {
				rule, codes, rules = len(codes), append(codes, d.Code), append(rules, object{"id": d.Code})
			}
			results = append(results, object{"ruleId": d.Code, "ruleIndex": rule, "level": f.level(d), "message": object{"text": messageOf(d)},
				"locations": []object{{"physicalLocation": f.location(d)}}})
		}
	}
	return object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": []object{{
		"tool": object{"driver": object{"name": "weft", "version": version, "rules": rules}}, "columnKind": "unicodeCodePoints", "results": results}}}
}

func (f *File) level(d source.Diagnostic) string {
	switch {
	case f.Skipped || d.Severity == source.Info:
		return "note"
	case d.Severity == source.Warning:
		return "warning"
	}
	return "error"
}

func messageOf(d source.Diagnostic) string {
	if d.Help == "" {
		return d.Text
	}
	return d.Text + "; " + d.Help
}

// location is a diagnostic's place. Diagnostics count bytes of a line, SARIF characters.
func (f *File) location(d source.Diagnostic) object {
	u := &url.URL{Path: filepath.ToSlash(d.File)}
	if filepath.IsAbs(d.File) {
		u.Scheme = "file"
	}
	p := object{"artifactLocation": object{"uri": u.String()}}
	if d.Line > 0 {
		p["region"] = object{"startLine": d.Line, "startColumn": f.characters(d.Line, d.Col)}
	}
	return p
}

// characters turns a column that counts bytes into one that counts characters.
func (f *File) characters(line, col int) int {
	if f.lines == nil {
		f.lines = bytes.Split(bytes.TrimPrefix(f.data, []byte("\ufeff")), []byte("\n"))
	}
	if line > len(f.lines) {
		return max(1, col)
	}
	text := f.lines[line-1]
	return utf8.RuneCount(text[:min(len(text), max(0, col-1))]) + 1
}
