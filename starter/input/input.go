// Package input reads files, standard input, flows, and the values of flags. Errors are of type [usage.Error].
package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/usage"
	"weft/worker/config"
	"weft/worker/flows"
)

// Reader reads files and standard input.
type Reader struct {
	Stdin io.Reader
	Say   func(format string, args ...any)
}

// maxBytes limits the size of every file: it is the largest payload limit of a store. Documents and files for models have
// separate limits.
const maxBytes = source.MaxValueBytes

// File reads a file, or standard input for "-". what describes it in errors.
func (r *Reader) File(what, name string) ([]byte, error) {
	if name == "-" {
		if in, ok := r.Stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
			r.Say("reading %s from the terminal; end with Ctrl-D on an empty line", what)
		}
		return readAll(r.Stdin, what+" from standard input", maxBytes)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usage.Errorf("read %s: %v", what, Cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, usage.Errorf("read %s: %s is a folder; use a file", what, name)
	}
	return readAll(f, what, maxBytes)
}

func readAll(from io.Reader, what string, limit int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	switch {
	case err != nil:
		return nil, usage.Errorf("read %s: %v", what, err)
	case len(data) > limit:
		return nil, usage.Errorf("read %s: it exceeds the limit of %d bytes", what, limit)
	}
	return data, nil
}

// Cause shortens the error of a file: "x: no such file or directory".
func Cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}

func (r *Reader) value(flag, value string) (name string, data []byte, err error) {
	file, ok := strings.CutPrefix(value, "@")
	switch {
	case ok && file == "":
		return "", nil, usage.Errorf("%s is @ without a file; use @FILE", flag)
	case value == "-":
		data, err = r.File(flag, "-")
		return "stdin", data, err
	case ok:
		data, err = r.File(flag, file)
		return file, data, err
	}
	return flag, []byte(value), nil
}

// Text returns the text of a flag's value: TEXT, @FILE, or - for standard input.
func (r *Reader) Text(flag, value string) (string, error) {
	_, data, err := r.value(flag, value)
	if err == nil && !utf8.Valid(data) {
		err = usage.Errorf("%s is not valid UTF-8; convert it", flag)
	}
	return string(data), err
}

// JSON parses a flag's value: JSON, @FILE, or - for standard input. It returns nil for "".
func (r *Reader) JSON(flag, value string) (*source.Value, error) {
	if value == "" {
		return nil, nil
	}
	name, data, err := r.value(flag, value)
	if err != nil {
		return nil, err
	}
	return parseJSON(flag, name, data)
}

// parseJSON parses one JSON value. Its error lists all problems with their positions.
func parseJSON(flag, name string, data []byte) (*source.Value, error) {
	if strings.TrimSpace(string(data)) == "" {
		return nil, usage.Errorf("%s is empty; expected JSON, for example {\"city\": \"Bern\"}", flag)
	}
	doc, diags := source.ParseValue(data)
	if doc != nil {
		return doc.Root, nil
	}
	var lines []string
	for _, d := range diags {
		d.File = name
		if d.Code == source.CodeSyntax {
			d.Help = "use double quotes around strings and keys"
		}
		lines = append(lines, strings.ReplaceAll(d.String(), "\n\t", "; "))
	}
	return nil, usage.Errorf("%s", strings.Join(lines, "\n"))
}

// Media reads the files to send to models: images, then documents, then recordings.
func (r *Reader) Media(f *Flags) ([]contract.Media, error) {
	if n := len(f.Images) + len(f.Documents) + len(f.Audio); n > contract.MaxMedia {
		return nil, usage.Errorf("-image, -document and -audio are set %d times; the limit is %d files", n, contract.MaxMedia)
	}
	var out []contract.Media
	for _, group := range []struct {
		kind  string
		names []string
	}{{contract.KindImage, f.Images}, {contract.KindDocument, f.Documents}, {contract.KindAudio, f.Audio}} {
		for _, name := range group.names {
			flag := "-" + group.kind
			data, err := r.File(flag, name)
			if err != nil {
				return nil, err
			}
			file, err := contract.NewMedia(data, name)
			if err == nil && file.Kind() != group.kind {
				err = fmt.Errorf("it is %s; use -%s", file.MediaType, file.Kind())
			}
			if err != nil {
				return nil, usage.Errorf("%s %s: %v", flag, name, err)
			}
			out = append(out, file)
		}
	}
	return out, nil
}

// Script reads and validates a script of model answers. It returns nil for "".
func (r *Reader) Script(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, err := r.File("-script", file)
	if err != nil {
		return nil, err
	}
	script, err := llm.ParseScript(file, data)
	if err != nil {
		return nil, usage.Error{Text: contract.FailureOf(err).Text}
	}
	return script, nil
}

// Model validates a list of models. If it is empty, Model returns the scripted model for a script, otherwise "", the worker's default.
func Model(model string, scripted bool) (string, error) {
	refs := llm.Refs(model)
	for _, ref := range refs {
		if ref != llm.ScriptModel && !strings.Contains(ref, "/") {
			return "", usage.Errorf("the model %q is not provider/model, for example openai/gpt-5", ref)
		}
	}
	switch {
	case model == "" && scripted:
		return llm.ScriptModel, nil
	case model != "" && len(refs) == 0:
		return "", usage.Errorf("the model %q has no name; use for example openai/gpt-5-mini", model)
	case scripted && !llm.HasScriptModel(model):
		return "", usage.Errorf("a script requires the model script, but the model is %q; remove one of them", model)
	}
	return model, nil
}

// Document is a flow's document. Result is nil if and only if a diagnostic is an error.
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
	if err := r.components(&o, f); err != nil {
		return nil, err
	}
	d := &Document{Text: folder.Text}
	d.Result, d.Diagnostics = folder.Load(o)
	return d, nil
}

// flow reads a file, standard input, or a folder, which can also be named by its main document.
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

// Folder reads the folder of a main document. It reads nothing outside the folder of its registries.
func Folder(file string) (*specadapter.Folder, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, usage.Errorf("read the flow: %v", err)
	}
	at, main := specadapter.Locate(path)
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, usage.Errorf("read the flow: %v", Cause(err))
	}
	defer root.Close()
	folder, err := specadapter.ReadFolder(root.FS(), main)
	if err != nil {
		return nil, usage.Errorf("read the flow: in %s: %v", at, err)
	}
	// Messages name files relative to the current folder if the caller does.
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
		// A file name is more likely to contain # than a key.
		file, key, hasKey := history.CutLast(rest, "#")
		if !ok || !hasKey || id == "" || file == "" || key == "" {
			return usage.Errorf("-component is %s, expected ID=FILE#KEY", source.Quote(text))
		}
		for _, c := range o.ComponentIDs {
			if c.ID == id {
				return usage.Errorf("duplicate id %s of -component: %s#%s and %s#%s; remove one of them", source.Quote(id), c.Name, c.Key, file, key)
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
		return usage.Errorf("%s is %s, expected a file", flag, source.Quote(file))
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

// Named finds a flow in the folder of flows by its name or its path. It returns the file to read, and the flow's name for workers
// that accept only named flows.
func Named(f config.Flows, flow string) (file, name string, err error) {
	if f.Dir == "" {
		return "", "", usage.Errorf("flows.accept is named, but flows.dir is not set; set it to the folder of the workers' flows, or to a copy of it")
	}
	name = flow
	info, err := os.Stat(flow)
	byPath := err == nil
	if byPath {
		path, err := filepath.Abs(flow)
		if err != nil {
			return "", "", usage.Errorf("read the flow: %v", err)
		}
		if info.IsDir() {
			path = filepath.Join(path, specadapter.FolderMain)
		}
		if name = filepath.Base(path); name == specadapter.FolderMain {
			name = filepath.Base(filepath.Dir(path))
		}
		if info, err = os.Stat(path); err != nil {
			return "", "", usage.Errorf("read the flow: %v", Cause(err))
		}
	}
	folder, err := flows.Named(f, name)
	if err != nil && !byPath {
		fail := contract.FailureOf(err)
		return "", "", usage.Errorf("%s (flows.accept: named, flows.dir: %s)%s", fail.Text, f.Dir, plaintext.If(fail.Remedy != "", "; %s", fail.Remedy))
	}
	if err == nil {
		file = filepath.Join(f.Dir, filepath.FromSlash(folder.Name))
	}
	if found, _ := os.Stat(file); byPath && (found == nil || !os.SameFile(info, found)) {
		return "", "", usage.Errorf("%s is not a flow of flows.dir (%s), and workers with flows.accept: named run only such flows; add it there and on the workers, or use -flow NAME; to send documents set flows.accept: any, also on the workers", flow, f.Dir)
	}
	return file, name, nil
}
