package input

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weft/specadapter"
	"weft/specadapter/source"
	"weft/starter/history"
	"weft/starter/usage"
)

// Document is a flow's document. The result is nil if and only if a diagnostic is an error.
type Document struct {
	Text        []byte
	Result      *specadapter.Result
	Diagnostics []source.Diagnostic
}

// Load reads and compiles a flow with the components of the flags.
func (r *Reader) Load(file string, o specadapter.Options, f *Flags) (*Document, error) {
	folder, err := r.flow(file)
	if err != nil {
		return nil, err
	}
	o.Files = folder.Files
	if err := r.components(&o, f); err != nil {
		return nil, err
	}
	d := &Document{Text: folder.Text}
	d.Result, d.Diagnostics = specadapter.Load(folder.Name, folder.Text, o)
	return d, nil
}

// flow reads a file, standard input, or a folder, for which its main document stands, too.
func (r *Reader) flow(file string) (*specadapter.Folder, error) {
	name := file
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		main := filepath.Join(file, specadapter.FolderMain)
		if _, err := os.Stat(main); errors.Is(err, fs.ErrNotExist) {
			return nil, usage.Errorf("read the flow: %s is a folder without %s; use a file", file, specadapter.FolderMain)
		}
		file = main
	}
	if filepath.Base(file) == specadapter.FolderMain {
		return Folder(file)
	}
	if file == "-" {
		name = "stdin"
	}
	data, err := r.File("the flow", file)
	return &specadapter.Folder{Name: name, Text: data}, err
}

// Folder reads the folder of a main document, and nothing outside the folder of its registries.
func Folder(file string) (*specadapter.Folder, error) {
	whole, err := filepath.Abs(file)
	if err != nil {
		return nil, usage.Errorf("read the flow: %v", err)
	}
	at, main := specadapter.Locate(whole)
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, usage.Errorf("read the flow: %v", Cause(err))
	}
	defer root.Close()
	folder, err := specadapter.ReadFolder(root.FS(), main)
	if err != nil {
		return nil, usage.Errorf("read the flow: in %s: %v", at, err)
	}
	// Messages name files as the caller does: from here if that is possible.
	if !filepath.IsAbs(file) {
		if here, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(here, at); err == nil {
				at = rel
			}
		}
	}
	return folder.Under(at), nil
}

func (r *Reader) components(o *specadapter.Options, f *Flags) error {
	for _, file := range f.Components {
		if err := r.component(o, "-components", file); err != nil {
			return err
		}
	}
	for _, text := range f.Component {
		id, rest, ok := strings.Cut(text, "=")
		// A file's name may have a #, a key hardly ever.
		file, key, hasKey := history.CutLast(rest, "#")
		if !ok || !hasKey || id == "" || file == "" || key == "" {
			return usage.Errorf("-component is %s, want ID=FILE#KEY", source.Quote(text))
		}
		for _, c := range o.ComponentIDs {
			if c.ID == id {
				return usage.Errorf("-component gives the id %s twice: %s#%s and %s#%s; remove one of them", source.Quote(id), c.Name, c.Key, file, key)
			}
		}
		if err := r.component(o, "-component", file); err != nil {
			return err
		}
		o.ComponentIDs = append(o.ComponentIDs, source.ComponentID{ID: id, Name: filepath.Clean(file), Key: key})
	}
	return nil
}

func (r *Reader) component(o *specadapter.Options, flag, file string) error {
	if file == "" || file == "-" {
		return usage.Errorf("%s is %s, want a file", flag, source.Quote(file))
	}
	file = filepath.Clean(file)
	for _, c := range o.Components {
		if c.Name == file {
			return nil
		}
	}
	data, err := r.File(flag, file)
	if err == nil {
		o.Components = append(o.Components, source.Component{Name: file, Text: string(data)})
	}
	return err
}
