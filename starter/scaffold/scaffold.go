// Package scaffold writes the files of a first flow.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed files
var files embed.FS

// flows are the flow's file and what a first run of it is given, by dialect.
var flows = map[string]struct{ file, given string }{
	"continuum": {"flow.json", `-input "Weft"`},
	"koog":      {"flow.json", `-input "Weft"`},
	"agentspec": {"flow.yaml", `-param topic=Weft`},
	"blueprint": {"agents/writer", `-input "Keep it short." -param topic=Weft`},
}

// Dialects are those that [Write] knows.
var Dialects = []string{"continuum", "koog", "agentspec", "blueprint"}

// Command is the command line, behind the program's name, that runs a dialect's first flow in its folder.
func Command(dialect string) string {
	return fmt.Sprintf("-dev -flow %s %s -script flow.script", flows[dialect].file, flows[dialect].given)
}

// Write writes the files of a first flow of a dialect into a folder, which it makes where it is not there, and returns
// their names. It replaces no file.
func Write(dialect, dir string) ([]string, error) {
	f, ok := flows[dialect]
	if !ok {
		return nil, fmt.Errorf("unknown dialect %q; known: %s", dialect, strings.Join(Dialects, ", "))
	}
	texts, names := map[string][]byte{}, []string(nil)
	add := func(from fs.FS, path, name string) error {
		text, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		texts[name], names = text, append(names, name)
		return nil
	}
	root := "files/" + dialect
	err := fs.WalkDir(files, root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return add(files, path, strings.TrimPrefix(path, root+"/"))
	})
	for _, name := range []string{"README.md", "weft.yaml"} {
		err = errors.Join(err, add(files, "files/"+name, name))
	}
	if err != nil {
		return nil, err
	}
	texts["README.md"] = []byte(strings.NewReplacer("FLOW", f.file, "GIVEN", f.given).Replace(string(texts["README.md"])))
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return nil, fmt.Errorf("%s already exists; use another folder", filepath.Join(dir, name))
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, texts[name], 0o644); err != nil {
			return nil, err
		}
	}
	return names, nil
}
