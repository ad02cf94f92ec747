package blueprint

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"unicode/utf8"

	"weft/specadapter/source"
)

// The files of the dialect.
const (
	fileAgent      = "agent.json"
	filePrompt     = "agent.system-prompt.md"
	fileMCP        = "agent.mcp.json"
	fileDisabled   = ".disabled"
	fileCapability = "capability.json"
	fileText       = "capability.text.md"
	fileCapMCP     = "capability.mcp.json"
	fileServer     = "mcp-server.json"
	fileScript     = "script.json"
)

// The folders of registries.
const (
	dirAgents       = "agents"
	dirCapabilities = "capabilities"
	dirServers      = "mcp-servers"
	dirScripts      = "scripts"
)

// plainName is what a folder of a registry may be called.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// roots are the folders that may have registries: two levels or one above the agent, and its own.
func roots(agentDir string) []string {
	up := path.Dir(agentDir)
	if path.Base(up) == dirAgents {
		return []string{path.Dir(up), agentDir}
	}
	if agentDir == "." || agentDir == "/" {
		return []string{agentDir}
	}
	return []string{up, agentDir}
}

func (a *adaptation) has(file string) bool {
	_, ok := a.files[file]
	if !ok && a.collector != nil {
		var text string
		if text, ok = a.collector.file(file); ok {
			a.files[file] = text
		}
	}
	return ok
}

// beside is the path of a file in the agent's folder, if it is there.
func (a *adaptation) beside(name string) (file string, ok bool) {
	file = path.Join(path.Dir(a.main), name)
	return file, a.has(file)
}

// registered is the path of a file of a registry's entry, if it is there.
func (a *adaptation) registered(registry, id, name string) (file string, ok bool) {
	for _, root := range roots(path.Dir(a.main)) {
		file = path.Join(root, registry, id, name)
		if a.has(file) {
			return file, true
		}
	}
	return "", false
}

// parse reads a file as JSON. What is wrong with it is reported; then it is nil.
func (a *adaptation) parse(file string) *source.Value {
	if v, ok := a.parsed[file]; ok {
		return v
	}
	doc, diags := source.Parse(file, []byte(a.files[file]))
	for i := range diags {
		a.Report(diags[i])
	}
	a.parsed[file] = nil
	if doc != nil {
		a.parsed[file] = doc.Root
	}
	return a.parsed[file]
}

func (a *adaptation) markdown(file string) string {
	text := a.files[file]
	if !utf8.ValidString(text) {
		a.Errorf(source.Pos{File: file, Line: 1, Col: 1}, CodeEncoding, "save the file as UTF-8", "the file is not valid UTF-8")
		return ""
	}
	return text
}

// Bounds of what belongs to one agent.
const (
	// MaxFiles is how many files are read.
	MaxFiles = 500
	// MaxFileBytes and MaxFolderBytes are the most that one and all of them may have.
	MaxFileBytes   = 1 << 20
	MaxFolderBytes = 4 << 20
	// maxAsked is how many files are looked for, whether they are there or not.
	maxAsked = 16 * MaxFiles
)

// Collect reads an agent's folder and everything that a start of it can reach: capabilities,
// MCP servers and scripts of the registries around it, the agents that its hooks name, and
// all agents where it can start others. Main is the path of its agent.json in fsys; names of
// files are such paths, too.
//
// It reads regular files alone; fsys decides where links may lead (an os.Root's lets none
// lead out of it). It fails where a file of the agent cannot be read or a bound is exceeded, naming it. An agent that it could
// start, and of which a file cannot be read, is left out, with a warning. What a file says is [Adapter.Adapt]'s to judge.
func Collect(fsys fs.FS, main string) (text []byte, files []source.File, warnings []source.Diagnostic, err error) {
	c := &collector{fsys: fsys, asked: map[string]bool{main: true}}
	text, err = c.read(main)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read %s: %w", main, err)
	}
	if doc, _ := source.Parse(main, text); doc != nil {
		a := newAdaptation(doc, ProfileDefault, source.Host{})
		a.collector = c
		a.adapt(doc)
	}
	return text, c.files, c.warnings, cmp.Or(c.beyond, c.unread)
}

type collector struct {
	fsys  fs.FS
	files []source.File
	bytes int
	asked map[string]bool
	// unread is the first file that cannot be read; beyond, if set, is the bound that is exceeded: no more files are read.
	unread, beyond error
	warnings       []source.Diagnostic
}

// file reads a file that has not been asked for before, if it is there.
func (c *collector) file(name string) (text string, ok bool) {
	if c.asked[name] || c.beyond != nil {
		return "", false
	}
	if c.asked[name] = true; len(c.asked) > maxAsked {
		c.beyond = fmt.Errorf("the agent refers to more than %d files; use fewer capabilities or agents", maxAsked)
		return "", false
	}
	data, err := c.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false
	case err != nil:
		c.unread = cmp.Or(c.unread, fmt.Errorf("read %s: %w", name, err))
		return "", false
	}
	switch c.bytes += len(data); {
	case c.bytes > MaxFolderBytes:
		c.beyond = fmt.Errorf("read %s: the agent's files have more than %d bytes in total; use fewer capabilities or agents", name, MaxFolderBytes)
		return "", false
	case len(c.files) >= MaxFiles:
		c.beyond = fmt.Errorf("read %s: the agent has more than %d files; use fewer capabilities or agents", name, MaxFiles)
		return "", false
	}
	c.files = append(c.files, source.File{Name: name, Text: string(data)})
	return string(data), true
}

// without calls read, which reads files of another agent, and reports whether it could. If not, drop is called, and a
// warning says why the agent is left out.
func (c *collector) without(file string, read func()) (ok bool) {
	before := c.unread
	c.unread = nil
	read()
	if ok = c.unread == nil; !ok {
		c.files = slices.DeleteFunc(c.files, func(f source.File) bool { return f.Name == file })
		c.warnings = append(c.warnings, source.Diagnostic{Severity: source.Warning, Code: CodeNotStarted, File: file, Line: 1, Col: 1,
			Text: "no run can start the agent in " + path.Dir(file) + ": " + c.unread.Error(), Help: "make its files readable, or remove it"})
	}
	c.unread = before
	return ok
}

func (c *collector) read(file string) ([]byte, error) {
	info, err := fs.Stat(c.fsys, file) // before it is opened: that of a pipe waits for a writer
	if err != nil {
		return nil, plainly(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := c.fsys.Open(file)
	if err != nil {
		return nil, plainly(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, plainly(err)
	}
	if len(data) > MaxFileBytes {
		return nil, fmt.Errorf("it exceeds the limit of %d bytes for an agent's file", MaxFileBytes)
	}
	return data, nil
}

// plainly drops what the message names anyway.
func plainly(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
