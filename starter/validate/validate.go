// Package validate reports the diagnostics of flows, as JSON or as SARIF.
package validate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/specadapter"
	"weft/specadapter/source"
	"weft/starter/input"
	"weft/starter/plaintext"
	"weft/starter/usage"
	"weft/worker/build"
)

// Extensions are the extensions of files in a folder that may be flows.
var Extensions = []string{".json", ".yaml", ".yml"}

const codeUnreadable = "unreadable"

// File is the report on one file.
type File struct {
	File string `json:"file"`
	// OK reports that the flow can be run; Skipped, that a file in a folder is not a flow.
	OK      bool   `json:"ok"`
	Skipped bool   `json:"skipped,omitempty"`
	Name    string `json:"name,omitempty"`
	Dialect string `json:"dialect,omitempty"`
	Nodes   int    `json:"nodes,omitempty"`
	Edges   int    `json:"edges,omitempty"`
	// Hash is the hash of the compiled flow.
	Hash        string              `json:"flow_hash,omitempty"`
	Diagnostics []source.Diagnostic `json:"diagnostics"`

	readErr error
	// data is the document; lines are its lines, split when they are first needed.
	data  []byte
	lines [][]byte
}

// Report is the report on all files.
type Report struct {
	Files []File `json:"files"`
	// Invalid counts the flows that cannot be read or run.
	Invalid int `json:"invalid"`
	// Flows counts the files that are not skipped.
	Flows int `json:"-"`
}

// Add adds a file to the report. found reports that it was found in a folder: then it need not be a flow.
func (r *Report) Add(name string, d *input.Document, readErr error, found bool) (*File, error) {
	f := File{File: name, Diagnostics: []source.Diagnostic{}, readErr: readErr}
	switch {
	case readErr != nil:
		f.Diagnostics = append(f.Diagnostics, source.Diagnostic{File: name, Code: codeUnreadable, Text: readErr.Error()})
	case d.Result == nil:
		f.data, f.Diagnostics = d.Text, append(f.Diagnostics, d.Diagnostics...)
		f.Skipped = found && len(d.Diagnostics) == 1 && d.Diagnostics[0].Code == specadapter.CodeDialect
	default:
		flow := d.Result.Flow
		hash, err := flow.Hash()
		if err != nil {
			return nil, err
		}
		f.data, f.Diagnostics = d.Text, append(f.Diagnostics, d.Diagnostics...)
		f.OK, f.Name, f.Dialect, f.Nodes, f.Edges, f.Hash = true, flow.Name, flow.Dialect, len(flow.Nodes), len(flow.Edges), hash
	}
	if !f.Skipped {
		r.Flows++
		if !f.OK {
			r.Invalid++
		}
	}
	r.Files = append(r.Files, f)
	return &r.Files[len(r.Files)-1], nil
}

// Text returns the line about a file for standard output, "" if the flow cannot be run, and the lines for standard error.
func (f *File) Text() (line string, notes []string) {
	switch {
	case f.readErr != nil:
		return "", []string{fmt.Sprintf("starter: %v", f.readErr)}
	case f.Skipped:
		return "", []string{fmt.Sprintf("%s: skipped: no dialect recognizes it", plaintext.Line(f.File, 500))}
	}
	for _, d := range f.Diagnostics {
		notes = append(notes, d.String())
	}
	if f.OK {
		line = fmt.Sprintf("%s: ok, %s, %d nodes, %d edges\n", f.File, f.Dialect, f.Nodes, f.Edges)
	}
	return line, notes
}

// Files expands arguments to files: folders are searched for files with one of [Extensions], in the order of
// their names; found reports for each file whether it was found in a folder. Hidden entries and linked
// folders are skipped.
func Files(args []string) (files []string, found map[string]bool, err error) {
	found = map[string]bool{}
	for _, arg := range args {
		if info, err := os.Stat(arg); arg == "-" || err != nil || !info.IsDir() {
			files = append(files, arg)
			continue
		}
		if info, err := os.Stat(filepath.Join(arg, specadapter.FolderMain)); err == nil && info.Mode().IsRegular() {
			files = append(files, arg) // the folder is one flow
			continue
		}
		err := filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			hidden := path != arg && strings.HasPrefix(entry.Name(), ".")
			switch {
			case err != nil:
				return err
			case entry.IsDir() && hidden:
				return fs.SkipDir
			case entry.IsDir(), hidden, !slices.Contains(Extensions, strings.ToLower(filepath.Ext(path))):
				return nil
			}
			if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
				return nil
			}
			files = append(files, path)
			found[path] = true
			return nil
		})
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, nil, usage.Errorf("read the folder %s: %v", arg, input.Cause(path))
		}
	}
	return files, found, nil
}

type object = map[string]any

// SARIF returns the diagnostics as SARIF 2.1.0.
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
			results = append(results, object{"ruleId": d.Code, "ruleIndex": rule, "level": f.level(d), "message": object{"text": d.Text + plaintext.If(d.Help != "", "; %s", d.Help)},
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

// location returns a diagnostic's position. Diagnostics count bytes of a line, SARIF characters.
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

// characters converts a column in bytes to a column in characters.
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
