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

// flows are the flow's file and the input flags of its first run, by dialect.
var flows = map[string]struct{ file, input string }{
	"continuum": {"flow.json", `-input "Weft"`},
	"koog":      {"flow.json", `-input "Weft"`},
	"agentspec": {"flow.yaml", `-param topic=Weft`},
	"blueprint": {"agents/writer", `-input "Keep it short." -param topic=Weft`},
}

// Dialects are the dialects that [Write] supports.
var Dialects = []string{"continuum", "koog", "agentspec", "blueprint"}

// Command returns the arguments of starter that run a dialect's first flow in its folder.
func Command(dialect string) string {
	return fmt.Sprintf("-dev -flow %s %s -script flow.script", flows[dialect].file, flows[dialect].input)
}

// Write writes the files of a first flow of a dialect into a folder, which it creates if necessary, and returns
// their names. It never replaces a file.
func Write(dialect, dir string) ([]string, error) {
	f, ok := flows[dialect]
	if !ok {
		return nil, fmt.Errorf("unknown dialect %q; available dialects: %s", dialect, strings.Join(Dialects, ", "))
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
	texts["README.md"] = []byte(strings.NewReplacer("FLOW", f.file, "INPUT", f.input).Replace(string(texts["README.md"])))
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
