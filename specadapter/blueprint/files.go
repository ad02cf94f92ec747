package blueprint

import (
	"path"
	"regexp"
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
	if doc == nil {
		a.parsed[file] = nil
		return nil
	}
	a.parsed[file] = doc.Root
	return doc.Root
}

func (a *adaptation) markdown(file string) string {
	text := a.files[file]
	if !utf8.ValidString(text) {
		a.Errorf(source.Pos{File: file, Line: 1, Col: 1}, CodeEncoding, "save the file as UTF-8", "the file is not valid UTF-8")
		return ""
	}
	return text
}
