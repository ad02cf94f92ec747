package main

import (
	"bytes"
	"net/url"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"weft/specadapter/source"
	"weft/worker/build"
)

// What follows is the part of SARIF 2.1.0, the OASIS format of findings of static analysis,
// that diagnostics need. Editors and code hosts read it.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn"`
	}
)

// sarifOf is what was found in all files.
func sarifOf(all *verdicts) *sarifLog {
	version, _ := build.Info()
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{},
		Tool: sarifTool{Driver: sarifDriver{Name: "weft", Version: version, Rules: []sarifRule{}}}}
	rules := &run.Tool.Driver.Rules
	for i := range all.Files {
		v := &all.Files[i]
		for _, d := range v.Diagnostics {
			at := slices.Index(*rules, sarifRule{d.Code})
			if at < 0 {
				at = len(*rules)
				*rules = append(*rules, sarifRule{d.Code})
			}
			run.Results = append(run.Results, sarifResult{RuleID: d.Code, RuleIndex: at, Level: levelOf(v, d),
				Message: sarifMessage{messageOf(d)}, Locations: []sarifLocation{{placeIn(v, d)}}})
		}
	}
	return &sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

func levelOf(v *verdict, d source.Diagnostic) string {
	switch {
	case v.Skipped || d.Severity == source.Info:
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

// placeIn is a diagnostic's place. Diagnostics count bytes of a line, SARIF characters.
func placeIn(v *verdict, d source.Diagnostic) sarifPhysical {
	name := filepath.ToSlash(d.File)
	u := &url.URL{Path: name}
	if filepath.IsAbs(d.File) {
		u.Scheme = "file"
	}
	p := sarifPhysical{Artifact: sarifArtifact{u.String()}}
	if d.Line > 0 {
		p.Region = &sarifRegion{Line: d.Line, Column: v.characters(d.Line, d.Col)}
	}
	return p
}

// characters turns a column that counts bytes into one that counts characters.
func (v *verdict) characters(line, col int) int {
	if v.lines == nil {
		v.lines = bytes.Split(bytes.TrimPrefix(v.data, []byte("\ufeff")), []byte("\n"))
	}
	if line > len(v.lines) {
		return max(1, col)
	}
	text := v.lines[line-1]
	return utf8.RuneCount(text[:min(len(text), max(0, col-1))]) + 1
}
