package lsp

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"

	"weft/specadapter"
)

// fileName is the path of a document. One that is not saved yet has a name by its language.
func fileName(uri, language string) string {
	u, err := url.Parse(uri)
	switch {
	case err == nil && u.Scheme == "file":
		return filepath.ToSlash(filepath.Clean(filepath.FromSlash(u.Path)))
	case strings.HasPrefix(language, "json"):
		return "untitled.json"
	}
	return "untitled.yaml"
}

func fileURI(name string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(name)}).String()
}

// textOf reads a file that is not open in the editor.
func textOf(uri string) []byte {
	text, err := os.ReadFile(filepath.FromSlash(fileName(uri, "")))
	if err != nil {
		return nil // its diagnostics stand at its beginning
	}
	return text
}

func isFolder(name string) bool { return path.Base(name) == specadapter.FolderMain }

// readFolder reads the folder of a main document, and takes the texts of documents that are open, saved or not.
func readFolder(name string, docs []*document) (*specadapter.Folder, error) {
	at, main := specadapter.Locate(filepath.FromSlash(name))
	o := overlay{open: fstest.MapFS{}}
	for _, d := range docs {
		if below, err := filepath.Rel(at, filepath.FromSlash(d.name)); err == nil && filepath.IsLocal(below) {
			o.open[filepath.ToSlash(below)] = &fstest.MapFile{Data: d.text, Mode: 0o644}
		}
	}
	root, err := os.OpenRoot(at)
	switch {
	case err == nil:
		defer root.Close()
		o.saved = root.FS()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	folder, err := specadapter.ReadFolder(o, main)
	if err != nil {
		return nil, err
	}
	return folder.Under(at), nil
}

// overlay is a folder with the texts of documents that are open. saved is nil where there is no such folder yet.
type overlay struct {
	saved fs.FS
	open  fstest.MapFS
}

func (o overlay) Open(name string) (fs.File, error) {
	if o.open[name] != nil || o.saved == nil {
		return o.open.Open(name)
	}
	return o.saved.Open(name)
}

// ReadDir lists a folder, with what is not saved yet.
func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	open, none := o.open.ReadDir(name)
	if o.saved == nil {
		return open, none
	}
	out, err := fs.ReadDir(o.saved, name)
	if none != nil {
		return out, err
	}
	for _, e := range open {
		if !slices.ContainsFunc(out, func(s fs.DirEntry) bool { return s.Name() == e.Name() }) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}
