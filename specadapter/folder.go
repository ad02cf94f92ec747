package specadapter

import (
	"io/fs"
	"path/filepath"
	"slices"

	"weft/specadapter/blueprint"
	"weft/specadapter/source"
)

// FolderMain is the file that makes a folder a flow.
const FolderMain = "agent.json"

// Folder is a flow of several files: the document that Load reads, and what lies around it.
type Folder struct {
	// Name is the document's path; Text is what stands there.
	Name string
	Text []byte
	// Files are [Options.Files].
	Files []source.File
	// Warnings name agents that the document could start, and that cannot be read.
	Warnings []source.Diagnostic
}

// Locate says where a flow's folder is: the folder to open, so that nothing outside it can be
// read, and the document's path in it, with slashes. Path names the document, absolute or not.
func Locate(path string) (root, main string) {
	dir := filepath.Dir(path)
	up := filepath.Dir(dir)
	if filepath.Base(up) == "agents" {
		up = filepath.Dir(up)
	}
	rel, err := filepath.Rel(up, path)
	if err != nil || up == dir {
		return dir, filepath.Base(path)
	}
	return up, filepath.ToSlash(rel)
}

// Load reads the folder's document as [Load] does, with what lies around it. The folder's warnings come first.
func (f *Folder) Load(o Options) (*Result, []source.Diagnostic) {
	o.Files = f.Files
	res, diags := Load(f.Name, f.Text, o)
	return res, append(slices.Clone(f.Warnings), diags...)
}

// Under gives the folder's names a path in front, so that messages name them as its user does.
func (f *Folder) Under(path string) *Folder {
	under := func(name string) string { return filepath.ToSlash(filepath.Join(path, name)) }
	out := &Folder{Name: under(f.Name), Text: f.Text, Warnings: slices.Clone(f.Warnings)}
	for _, file := range f.Files {
		out.Files = append(out.Files, source.File{Name: under(file.Name), Text: file.Text})
	}
	for i := range out.Warnings {
		out.Warnings[i].File = under(out.Warnings[i].File)
	}
	return out
}

// ReadFolder reads a flow's folder: the document main and all that a start of it can reach,
// within bounds. It fails where a file cannot be read, naming it.
func ReadFolder(fsys fs.FS, main string) (*Folder, error) {
	text, files, warnings, err := blueprint.Collect(fsys, main)
	if err != nil {
		return nil, err
	}
	return &Folder{Name: main, Text: text, Files: files, Warnings: warnings}, nil
}
