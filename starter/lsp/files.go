package lsp

import (
	"bytes"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

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

// readFolder reads the folder of a main document, and takes the texts of documents that are open.
func readFolder(name string, docs []*document) (*specadapter.Folder, error) {
	at, main := specadapter.Locate(filepath.FromSlash(name))
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	folder, err := specadapter.ReadFolder(&overlay{root.FS(), filepath.ToSlash(at), docs}, main)
	if err != nil {
		return nil, err
	}
	return folder.Under(at), nil
}

// overlay is a folder with the texts of documents that are open.
type overlay struct {
	fs.FS
	at   string
	docs []*document
}

// Open opens a file.
func (o *overlay) Open(name string) (fs.File, error) {
	f, err := o.FS.Open(name)
	if err != nil {
		return nil, err
	}
	for _, d := range o.docs {
		if d.name == path.Join(o.at, name) {
			return &openFile{f, bytes.NewReader(d.text)}, nil
		}
	}
	return f, nil
}

// ReadDir lists a folder.
func (o *overlay) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(o.FS, name) }

type openFile struct {
	fs.File
	text io.Reader
}

func (f *openFile) Read(p []byte) (int, error) { return f.text.Read(p) }
