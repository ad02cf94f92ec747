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

// plainName matches the valid names of folders in a registry.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// roots returns the folders that may contain registries: the parent of agents/ or of the agent's folder, and the latter itself.
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

func (a *adaptation) exists(file string) bool {
	_, ok := a.files[file]
	if !ok && a.collector != nil {
		var text string
		if text, ok = a.collector.file(file); ok {
			a.files[file] = text
		}
	}
	return ok
}

// agentFile returns the path of a file in the agent's folder and reports whether it exists.
func (a *adaptation) agentFile(name string) (file string, ok bool) {
	file = path.Join(path.Dir(a.main), name)
	return file, a.exists(file)
}

// registryFile returns the path of a file of a registry entry and reports whether it exists.
func (a *adaptation) registryFile(registry, id, name string) (file string, ok bool) {
	for _, root := range roots(path.Dir(a.main)) {
		file = path.Join(root, registry, id, name)
		if a.exists(file) {
			return file, true
		}
	}
	return "", false
}

// parse parses a JSON file. It returns nil after reporting an error.
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

// Limits of the files of one agent.
const (
	// MaxFiles is the maximum number of files.
	MaxFiles = 500
	// MaxFileBytes and MaxFolderBytes are the maximum sizes of a file and of all files.
	MaxFileBytes   = 1 << 20
	MaxFolderBytes = 4 << 20
	// maxRequested is the maximum number of files that are looked up, whether they exist or not.
	maxRequested = 16 * MaxFiles
)

// Collect reads an agent's folder and all files that its runs can reach: capabilities, MCP servers and
// scripts of the registries around it, the agents of its hooks, and all agents if it can start others.
// main is the path of its agent.json in fsys; the names of the files are paths in fsys too.
//
// It only reads regular files; fsys determines where links may point (those of an os.Root never leave it).
// If a file of the agent cannot be read or a limit is exceeded, the error names the file or the limit. Another
// agent that it could start is omitted with a warning if one of its files cannot be read. Collect does not
// report the errors in the files; see [Adapter.Adapt].
func Collect(fsys fs.FS, main string) (text []byte, files []source.File, warnings []source.Diagnostic, err error) {
	c := &collector{fsys: fsys, requested: map[string]bool{main: true}}
	text, err = c.read(main)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read %s: %w", main, err)
	}
	if doc, _ := source.Parse(main, text); doc != nil {
		a := newAdaptation(doc, ProfileDefault, source.Host{})
		a.collector = c
		a.adapt(doc)
	}
	return text, c.files, c.warnings, cmp.Or(c.limitErr, c.readErr)
}

type collector struct {
	fsys      fs.FS
	files     []source.File
	bytes     int
	requested map[string]bool
	// readErr is the first error of reading a file. limitErr, if set, is the exceeded limit; no more files are read.
	readErr, limitErr error
	warnings          []source.Diagnostic
}

// file returns the content of a file that has not been requested before; ok is false if it does not exist.
func (c *collector) file(name string) (text string, ok bool) {
	if c.requested[name] || c.limitErr != nil {
		return "", false
	}
	if c.requested[name] = true; len(c.requested) > maxRequested {
		c.limitErr = fmt.Errorf("the agent refers to more than %d files; use fewer capabilities or agents", maxRequested)
		return "", false
	}
	data, err := c.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false
	case err != nil:
		c.readErr = cmp.Or(c.readErr, fmt.Errorf("read %s: %w", name, err))
		return "", false
	}
	switch c.bytes += len(data); {
	case c.bytes > MaxFolderBytes:
		c.limitErr = fmt.Errorf("read %s: the agent's files have more than %d bytes in total; use fewer capabilities or agents", name, MaxFolderBytes)
		return "", false
	case len(c.files) >= MaxFiles:
		c.limitErr = fmt.Errorf("read %s: the agent has more than %d files; use fewer capabilities or agents", name, MaxFiles)
		return "", false
	}
	c.files = append(c.files, source.File{Name: name, Text: string(data)})
	return string(data), true
}

// tryRead calls read, which reads files of another agent, and reports whether all could be read. If not, it removes the
// agent's file and adds a warning.
func (c *collector) tryRead(file string, read func()) (ok bool) {
	before := c.readErr
	c.readErr = nil
	read()
	if ok = c.readErr == nil; !ok {
		c.files = slices.DeleteFunc(c.files, func(f source.File) bool { return f.Name == file })
		c.warnings = append(c.warnings, source.Diagnostic{Severity: source.Warning, Code: CodeNotStarted, File: file, Line: 1, Col: 1,
			Text: "no run can start the agent in " + path.Dir(file) + ": " + c.readErr.Error(), Help: "make its files readable, or remove it"})
	}
	c.readErr = before
	return ok
}

func (c *collector) read(file string) ([]byte, error) {
	info, err := fs.Stat(c.fsys, file) // before opening it: opening a pipe blocks until it has a writer
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := c.fsys.Open(file)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if len(data) > MaxFileBytes {
		return nil, fmt.Errorf("it exceeds the limit of %d bytes for an agent's file", MaxFileBytes)
	}
	return data, nil
}

// withoutPath removes the operation and the path from an error, because the message contains the path.
func withoutPath(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
