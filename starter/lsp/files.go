package lsp

import (
	"bytes"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
	o := &overlay{at: filepath.ToSlash(at), docs: docs}
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
	at    string
	docs  []*document
}

func (o *overlay) Open(name string) (fs.File, error) {
	for _, d := range o.docs {
		if d.name == path.Join(o.at, name) {
			return &openFile{bytes.NewReader(d.text), path.Base(name)}, nil
		}
	}
	if o.saved == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return o.saved.Open(name)
}

// ReadDir lists a folder, with what is not saved yet.
func (o *overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	var err error = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	if o.saved != nil {
		out, err = fs.ReadDir(o.saved, name)
	}
	for _, d := range o.docs {
		below, ok := strings.CutPrefix(d.name, path.Join(o.at, name)+"/")
		if !ok {
			continue
		}
		first, _, inFolder := strings.Cut(below, "/")
		if !slices.ContainsFunc(out, func(e fs.DirEntry) bool { return e.Name() == first }) {
			out = append(out, newEntry{first, inFolder})
		}
		err = nil
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, err
}

// newEntry is a file that is not saved yet, or a folder with one.
type newEntry struct {
	name   string
	folder bool
}

func (e newEntry) Name() string               { return e.name }
func (e newEntry) IsDir() bool                { return e.folder }
func (e newEntry) Info() (fs.FileInfo, error) { return &openFile{bytes.NewReader(nil), e.name}, nil }
func (e newEntry) Type() fs.FileMode {
	if e.folder {
		return fs.ModeDir
	}
	return 0
}

// openFile is a document that is open, as a file.
type openFile struct {
	*bytes.Reader
	name string
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f, nil }

// Close has nothing to do.
func (f *openFile) Close() error { return nil }

func (f *openFile) Name() string       { return f.name }
func (f *openFile) Mode() fs.FileMode  { return 0o644 }
func (f *openFile) ModTime() time.Time { return time.Time{} }
func (f *openFile) IsDir() bool        { return false }
func (f *openFile) Sys() any           { return nil }
