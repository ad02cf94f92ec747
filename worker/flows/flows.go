// Package flows reads flows by name from a directory, so that clients of a worker and of the HTTP
// server can start them without sending a document.
//
// Names come from clients and are untrusted: files outside the directory are never read. Start at
// [Named].
package flows

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/worker/config"
)

// extensions lists the file extensions of flows. None has precedence: a name that matches two files is
// rejected.
var extensions = []string{".json", ".yaml", ".yml"}

// Named reads the named flow from the directory: a file, or an agent's folder with its files. Its
// error is a [contract.Failure] of class invalid_flow if the name does not refer to a flow,
// unavailable or denied if the directory cannot be read.
func Named(f config.Flows, name string) (*specadapter.Folder, error) {
	if f.Dir == "" {
		return nil, invalidName("set in weft.yaml: flows: {dir: /PATH/TO/FLOWS}; or send the document itself",
			"the run refers to the flow %s, but flows.dir is not set", source.Quote(name))
	}
	if name != filepath.Base(name) || strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") || len(name) > 200 {
		return nil, invalidName("use the name of a file in flows.dir, with or without its extension", "the flow name %s is not a plain file name", source.Quote(name))
	}
	// The root prevents names and symbolic links from escaping the directory.
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, readFailure(name, err)
	}
	defer root.Close()
	file, err := pick(root, name)
	if err != nil {
		return nil, err
	}
	if path.Base(file) == specadapter.FolderMain {
		folder, err := specadapter.ReadFolder(root.FS(), file)
		if err != nil {
			return nil, invalidName("fix the agent's folder", "the flow %s: %v", source.Quote(name), err)
		}
		return folder, nil
	}
	data, err := readIn(root, file)
	if err != nil {
		return nil, err
	}
	return &specadapter.Folder{Name: file, Text: data}, nil
}

func pick(root *os.Root, name string) (string, error) {
	candidates := []string{name}
	if !slices.Contains(extensions, filepath.Ext(name)) {
		candidates = nil
		for _, ext := range extensions {
			candidates = append(candidates, name+ext)
		}
		candidates = append(candidates, path.Join("agents", name, specadapter.FolderMain))
	}
	var found []string
	for _, c := range candidates {
		switch _, err := root.Lstat(c); {
		case err == nil:
			found = append(found, c)
		case !errors.Is(err, fs.ErrNotExist):
			return "", readFailure(c, err)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", invalidName(near(root, name), "flow %s not found in flows.dir", source.Quote(name))
	}
	return "", invalidName("use one of them, with its extension", "the flow name %s is ambiguous: %s", source.Quote(name), strings.Join(found, " and "))
}

// near returns the remedy for a name that is not found; it suggests a similar name if there is one.
func near(root *os.Root, name string) string {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return "use the name of a file in flows.dir"
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); slices.Contains(extensions, ext) && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, strings.TrimSuffix(e.Name(), ext))
		}
	}
	if n := source.NewSuggester(names).Nearest(name); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return fmt.Sprintf("use one of the %d flows there, with or without its extension", len(names))
}

// readIn reads a file of the directory, at most one byte more than the size limit of a document, so that
// the parser reports a file that is too large.
func readIn(root *os.Root, file string) ([]byte, error) {
	info, err := root.Stat(file)
	if err != nil {
		return nil, readFailure(file, err)
	}
	if !info.Mode().IsRegular() {
		return nil, invalidName("replace it with a file", "%s in flows.dir is not a file", source.Quote(file))
	}
	f, err := root.Open(file)
	if err != nil {
		return nil, readFailure(file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, source.MaxBytes+1))
	if err != nil {
		return nil, readFailure(file, err)
	}
	return data, nil
}

func invalidName(remedy, format string, args ...any) error {
	return &contract.Failure{Class: contract.ClassInvalidFlow, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// readFailure classifies a file system error. Only temporary errors are retried.
func readFailure(file string, err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err // clients need not know the path
	}
	f := &contract.Failure{Class: contract.ClassUnavailable, Text: fmt.Sprintf("read the flow %s: %v", source.Quote(file), err)}
	switch {
	case errors.Is(err, fs.ErrPermission):
		f.Class, f.Remedy = contract.ClassDenied, "make flows.dir readable"
	case errors.Is(err, fs.ErrNotExist), strings.Contains(err.Error(), "escapes"):
		f.Class, f.Remedy = contract.ClassInvalidFlow, "put the file itself into flows.dir; links must not lead out of it"
	}
	return f
}
