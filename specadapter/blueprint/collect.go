package blueprint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"weft/specadapter/source"
)

// Bounds of what belongs to one agent.
const (
	// MaxFiles is how many files are read.
	MaxFiles = 500
	// MaxFileBytes and MaxFolderBytes are the most that one and all of them may have.
	MaxFileBytes   = 1 << 20
	MaxFolderBytes = 4 << 20
)

// Collect reads an agent's folder and everything that a start of it can reach: capabilities,
// MCP servers and scripts of the registries around it, the agents that its hooks name, and
// all agents where it can start others. Main is the path of its agent.json in fsys; names of
// files are such paths, too.
//
// It reads regular files alone; fsys decides where links may lead (an os.Root's lets none
// lead out of it). It fails where a file cannot be read or a bound is exceeded, naming it.
// What a file says is [Adapter.Adapt]'s to judge.
func Collect(fsys fs.FS, main string) (text []byte, files []source.File, err error) {
	c := collector{fsys: fsys, roots: roots(path.Dir(main)), done: map[string]bool{main: true}}
	text, err = c.read(main)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", main, err)
	}
	c.folder(path.Dir(main), agentFiles)
	c.references(main, text)
	for len(c.todo) > 0 && c.err == nil {
		next := c.todo[0]
		c.todo = c.todo[1:]
		c.folder(next.dir, next.files)
	}
	return text, c.files, c.err
}

// The files of an agent and of each registry's entry.
var (
	agentFiles    = []string{fileAgent, filePrompt, fileMCP, fileDisabled}
	registryFiles = map[string][]string{
		dirAgents:       agentFiles,
		dirCapabilities: {fileCapability, fileText, fileCapMCP},
		dirServers:      {fileServer},
		dirScripts:      {fileScript},
	}
)

type collector struct {
	fsys  fs.FS
	roots []string
	files []source.File
	bytes int
	// done are the files and folders that have been asked for.
	done map[string]bool
	todo []entry
	err  error
}

// entry is a folder that is wanted, with the names of its files.
type entry struct {
	dir   string
	files []string
}

// folder reads the files of a folder that are there.
func (c *collector) folder(dir string, names []string) {
	for _, name := range names {
		file := path.Join(dir, name)
		if c.done[file] || c.err != nil {
			continue
		}
		c.done[file] = true
		data, err := c.read(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			c.err = fmt.Errorf("read %s: %w", file, err)
			return
		}
		c.files = append(c.files, source.File{Name: file, Text: string(data)})
		c.references(file, data)
	}
}

// read reads one file within the bounds.
func (c *collector) read(file string) ([]byte, error) {
	f, err := c.fsys.Open(file)
	if err != nil {
		return nil, plainly(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, plainly(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, plainly(err)
	}
	c.bytes += len(data)
	switch {
	case len(data) > MaxFileBytes:
		return nil, fmt.Errorf("it has more than %d bytes, the maximum for an agent's file", MaxFileBytes)
	case c.bytes > MaxFolderBytes:
		return nil, fmt.Errorf("the agent's files have more than %d bytes in total; use fewer capabilities or agents", MaxFolderBytes)
	case len(c.files) >= MaxFiles:
		return nil, fmt.Errorf("the agent has more than %d files; use fewer capabilities or agents", MaxFiles)
	}
	return data, nil
}

// plainly drops what the message names anyway.
func plainly(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// references asks for what a file names. What is no JSON names nothing; the adapter says so.
func (c *collector) references(file string, data []byte) {
	if path.Ext(file) != ".json" {
		return
	}
	doc, _ := source.Parse(file, data)
	if doc == nil {
		return
	}
	root := doc.Root
	for _, item := range root.Get("capabilities").Elements() {
		c.want(dirCapabilities, item)
	}
	c.want(dirScripts, root.Get("script"))
	if program := root.Get("script_file"); program != nil && path.Base(file) == fileScript && program.Kind == source.String && local(program.Text) {
		c.todo = append(c.todo, entry{path.Dir(file), []string{program.Text}})
	}
	for _, event := range []string{onRunStart, onRunFinish} {
		c.want(dirAgents, root.Get("hooks").Get(event).Get("agent_name"))
	}
	c.servers(root)
	if path.Base(file) == fileServer && is(root.Get("url"), orchestratorURLs...) {
		c.everyAgent()
	}
}

// servers asks for the MCP servers that a document names.
func (c *collector) servers(root *source.Value) {
	for _, key := range []string{"mcpServers", "mcp_servers"} {
		servers := root.Get(key)
		if servers == nil {
			continue
		}
		for _, m := range servers.Members {
			ref, address := m.Value.Get("ref"), m.Value.Get("url")
			c.want(dirServers, ref)
			if is(ref, orchestratorRef) || is(address, orchestratorURLs...) {
				c.everyAgent()
			}
		}
	}
}

func is(v *source.Value, texts ...string) bool {
	return v != nil && v.Kind == source.String && slices.Contains(texts, v.Text)
}

// want asks for an entry of a registry by its name.
func (c *collector) want(registry string, name *source.Value) {
	if name == nil || name.Kind != source.String || !plainName.MatchString(name.Text) {
		return
	}
	for _, root := range c.roots {
		dir := path.Join(root, registry, name.Text)
		if key := dir + "/"; !c.done[key] && len(c.done) < 4*MaxFiles {
			c.done[key] = true
			c.todo = append(c.todo, entry{dir, registryFiles[registry]})
		}
	}
}

// everyAgent asks for all agents.
func (c *collector) everyAgent() {
	if c.done[dirAgents] {
		return
	}
	c.done[dirAgents] = true
	for _, root := range c.roots {
		list, err := fs.ReadDir(c.fsys, path.Join(root, dirAgents))
		if err != nil {
			continue // there is none
		}
		for _, e := range list {
			c.want(dirAgents, &source.Value{Kind: source.String, Text: e.Name()})
		}
	}
}
