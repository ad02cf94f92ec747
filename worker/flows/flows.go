// Package flows reads flows by their names out of a folder: what clients of a worker and of
// the HTTP door start without sending a document.
//
// Names come from clients: whatever one is, nothing outside the folder is read. Start at
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

// extensions are those of flows in the folder, in no order: a name that fits two files is
// refused.
var extensions = []string{".json", ".yaml", ".yml"}

// Named reads the flow of a name from the folder: a file of that name, or an agent's folder
// with what belongs to it. Its error is a [contract.Failure]: invalid_flow where the name
// means no flow, unavailable or denied where the folder cannot be read.
func Named(f config.Flows, name string) (*specadapter.Folder, error) {
	if f.Dir == "" {
		return nil, unnamed("set in weft.yaml: flows: {dir: /PATH/TO/FLOWS}; or send the document itself",
			"the run asks for the flow %s, but there is no folder of flows here", source.Quote(name))
	}
	if name != filepath.Base(name) || strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") || len(name) > 200 {
		return nil, unnamed("name a file of flows.dir, with or without its extension", "the flow's name %s is no plain file name", source.Quote(name))
	}
	// A root lets no name and no symbolic link lead out of it.
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, unread(name, err)
	}
	defer root.Close()
	file, err := pick(root, name)
	if err != nil {
		return nil, err
	}
	if path.Base(file) == specadapter.FolderMain {
		folder, err := specadapter.ReadFolder(root.FS(), file)
		if err != nil {
			return nil, unnamed("mend the agent's folder", "the flow %s: %v", source.Quote(name), err)
		}
		return folder, nil
	}
	data, err := readIn(root, file)
	if err != nil {
		return nil, err
	}
	return &specadapter.Folder{Name: file, Text: data}, nil
}

// pick finds the one file that a name means.
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
			return "", unread(c, err)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", unnamed(near(root, name), "there is no flow %s in the folder of flows", source.Quote(name))
	}
	return "", unnamed("name one of them with its extension", "the flow's name %s means %s", source.Quote(name), strings.Join(found, " and "))
}

// near is what to do about a name that nothing has.
func near(root *os.Root, name string) string {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return "name a file of flows.dir"
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
	return fmt.Sprintf("name one of the %d flows there, with or without its extension", len(names))
}

// readIn reads a file of the folder, at most one byte more than a document may have: then
// its own message says that it is too long.
func readIn(root *os.Root, file string) ([]byte, error) {
	info, err := root.Stat(file)
	if err != nil {
		return nil, unread(file, err)
	}
	if !info.Mode().IsRegular() {
		return nil, unnamed("put the flow there as a file", "%s in the folder of flows is no file", source.Quote(file))
	}
	f, err := root.Open(file)
	if err != nil {
		return nil, unread(file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, source.MaxBytes+1))
	if err != nil {
		return nil, unread(file, err)
	}
	return data, nil
}

// unnamed is the failure of a name that gives no flow.
func unnamed(remedy, format string, args ...any) error {
	return &contract.Failure{Class: contract.ClassInvalidFlow, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// unread classifies what the file system says. Only what may pass by itself is retried.
func unread(file string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the folder's place is the operator's business
	}
	f := &contract.Failure{Class: contract.ClassUnavailable, Text: fmt.Sprintf("read the flow %s: %v", source.Quote(file), err)}
	switch {
	case errors.Is(err, fs.ErrPermission):
		f.Class, f.Remedy = contract.ClassDenied, "make flows.dir readable"
	case errors.Is(err, fs.ErrNotExist), strings.Contains(err.Error(), "escapes"):
		f.Class, f.Remedy = contract.ClassInvalidFlow, "put the file itself into flows.dir; a link must not lead out of it"
	}
	return f
}
