package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/specadapter"
	"weft/specadapter/source"
	"weft/starter/plaintext"
)

// flowExtensions are those of files that are looked at in a folder.
var flowExtensions = []string{".json", ".yaml", ".yml"}

// codeUnreadable is the code of a file that could not be read.
const codeUnreadable = "unreadable"

// verdict is what validate says of one file.
type verdict struct {
	File string `json:"file"`
	// OK says that the flow can be run; Skipped, that a folder's file is no flow.
	OK      bool   `json:"ok"`
	Skipped bool   `json:"skipped,omitempty"`
	Name    string `json:"name,omitempty"`
	Dialect string `json:"dialect,omitempty"`
	Nodes   int    `json:"nodes,omitempty"`
	Edges   int    `json:"edges,omitempty"`
	// Hash identifies the flow that the document means.
	Hash        string              `json:"flow_hash,omitempty"`
	Diagnostics []source.Diagnostic `json:"diagnostics"`

	// data is the document; lines are its lines, once they are needed.
	data  []byte
	lines [][]byte
}

// verdicts are all of them, for programs.
type verdicts struct {
	Files []verdict `json:"files"`
	// Wrong is how many of the files are flows that cannot be run, or cannot be read.
	Wrong int `json:"wrong"`
}

// validate says all that is wrong with all files. Its exit code is 2 if one is wrong.
func (a *app) validate(_ context.Context, args []string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	files, err := flowFiles(args)
	if err != nil {
		return err
	}
	all := verdicts{Files: []verdict{}}
	flows := 0
	for _, f := range files {
		v := verdict{File: f.name, Diagnostics: []source.Diagnostic{}}
		e, err := a.examine(cfg, f.name, false)
		if err != nil {
			v.Diagnostics = append(v.Diagnostics, source.Diagnostic{File: f.name, Code: codeUnreadable, Text: err.Error()})
		} else if err := v.take(e, f.found && a.flags.dialect == ""); err != nil {
			return err
		}
		if !v.Skipped {
			flows++
		}
		if !v.OK && !v.Skipped {
			all.Wrong++
		}
		a.tellVerdict(&v, err)
		all.Files = append(all.Files, v)
	}
	return a.judged(&all, flows, args)
}

// judged ends a validation.
func (a *app) judged(all *verdicts, flows int, args []string) error {
	switch a.flags.output {
	case outputJSON:
		a.object(all)
	case outputSARIF:
		a.object(sarifOf(all))
	}
	switch {
	case flows == 0:
		return bad("no flows in %s; a flow is a file ending in %s that a dialect recognizes",
			strings.Join(args, ", "), strings.Join(flowExtensions, ", "))
	case all.Wrong > 0:
		a.say("starter: %d of %d files cannot be run", all.Wrong, flows)
		return coded(exitBadInput)
	}
	return nil
}

// take notes what was found in a document.
func (v *verdict) take(e *examined, found bool) error {
	v.data = e.data
	v.Diagnostics = append(v.Diagnostics, e.diags...)
	if e.res == nil {
		v.Skipped = found && len(e.diags) == 1 && e.diags[0].Code == specadapter.CodeDialect
		return nil
	}
	hash, err := e.res.Flow.Hash()
	if err != nil {
		return err
	}
	f := e.res.Flow
	v.OK, v.Name, v.Dialect, v.Nodes, v.Edges, v.Hash = true, f.Name, f.Dialect, len(f.Nodes), len(f.Edges), hash
	return nil
}

// tellVerdict prints the verdict of one file for people.
func (a *app) tellVerdict(v *verdict, unread error) {
	switch {
	case a.flags.output != outputText:
	case unread != nil:
		a.say("starter: %v", unread)
	case v.Skipped:
		a.say("%s: skipped: no dialect recognizes it", plaintext.Line(v.File, 500))
	default:
		for _, d := range v.Diagnostics {
			a.say("%s", d)
		}
		if v.OK {
			fmt.Fprintf(a.stdout, "%s: ok, %s, %d nodes, %d edges\n", v.File, v.Dialect, v.Nodes, v.Edges)
		}
	}
}

// flowFile is a file to look at; found says that it was found in a folder, not named.
type flowFile struct {
	name  string
	found bool
}

// flowFiles lists the files that arguments mean: themselves, and what looks like a flow in
// folders, in the order of their names. Hidden entries, and folders behind links, are left
// out.
func flowFiles(args []string) ([]flowFile, error) {
	var out []flowFile
	for _, arg := range args {
		if info, err := os.Stat(arg); arg == "-" || err != nil || !info.IsDir() {
			out = append(out, flowFile{name: arg})
			continue
		}
		if info, err := os.Stat(filepath.Join(arg, specadapter.FolderMain)); err == nil && info.Mode().IsRegular() {
			out = append(out, flowFile{name: arg}) // the folder is one flow
			continue
		}
		err := filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			hidden := path != arg && strings.HasPrefix(entry.Name(), ".")
			switch {
			case err != nil:
				return err
			case entry.IsDir() && hidden:
				return fs.SkipDir
			case entry.IsDir(), hidden, !slices.Contains(flowExtensions, strings.ToLower(filepath.Ext(path))):
				return nil
			}
			if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
				return nil
			}
			out = append(out, flowFile{path, true})
			return nil
		})
		var path *fs.PathError
		if errors.As(err, &path) {
			return nil, bad("read the folder %s: %v", arg, cause(path))
		}
	}
	return out, nil
}
