package blueprint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
)

// capability adds a capability to an agent and returns its parts of the prompt: its text and its script's usage.
func (g *agent) capability(c listItem) []string {
	if g.capabilities[c.text] {
		g.a.Errorf(c.at, CodeTwice, "remove one of the two", "%s lists the capability %s twice", g.Name, source.Quote(c.text))
		return nil
	}
	g.capabilities[c.text] = true
	o := g.entry(dirCapabilities, fileCapability, c, CodeCapability, "capability")
	if o == nil {
		return nil
	}
	o.Check(&capabilityShape)
	o.Required("name")
	o.Required("description")
	var parts []string
	text, hasText := g.a.registryFile(dirCapabilities, c.text, fileText)
	if hasText {
		parts = append(parts, g.a.markdown(text))
	}
	servers, hasServers := g.a.registryFile(dirCapabilities, c.text, fileCapMCP)
	if hasServers {
		g.serversOf(servers)
	}
	script := o.Expect("script", source.String)
	if script != nil {
		if s := o.script(listItem{script.Text, script.Pos}); s != nil {
			g.scripts = append(g.scripts, listItem{s.name, script.Pos})
			parts = append(parts, s.usage())
		}
	}
	o.checkParts(hasText, hasServers, script != nil)
	return parts
}

// checkParts warns if a capability's type does not match its parts. Without a type, any parts are valid.
func (o *object) checkParts(text, servers, script bool) {
	kind := o.Text("type")
	want := map[string]bool{"text": text, "mcp": servers, "script": script}
	has, known := want[kind]
	switch {
	case kind == "" && !text && !servers && !script:
		o.a.Warnf(o.Value.Pos, CodeCapability, "add "+fileText+", "+fileCapMCP+` or "script"`, "%s has no content", o.Name)
	case kind == "":
	case !known:
		o.a.Errorf(o.Pos("type"), CodeCapability, `use "script", "mcp" or "text"`, "the type of %s is %s", o.Name, source.Quote(kind))
	case !has:
		o.a.Warnf(o.Pos("type"), CodeCapability, "add that part or fix the type", "%s is of type %s but lacks that part", o.Name, kind)
	case kind == "text" && (servers || script), kind == "mcp" && script:
		o.a.Warnf(o.Pos("type"), CodeCapability, "remove the other part or the type", "%s is of type %s but has parts of another type", o.Name, kind)
	}
}

// entry returns the object of a registry entry, or nil after reporting an error.
func (o *object) entry(registry, name string, item listItem, code, what string) *object {
	if !plainName.MatchString(item.text) {
		o.a.Errorf(item.at, code, "use the name of a folder in "+registry+"/", "%s has an invalid name of a %s: %s", o.Name, what, source.Quote(item.text))
		return nil
	}
	file, ok := o.a.registryFile(registry, item.text, name)
	if !ok {
		o.a.Errorf(item.at, code, fmt.Sprintf("add %s/%s/%s, or fix the name", registry, item.text, name),
			"%s refers to the %s %s, which is not found", o.Name, what, source.Quote(item.text))
		return nil
	}
	return o.a.open(file, what+" "+source.Quote(item.text))
}

type script struct {
	name, description, file string
	// params is its parameters_schema, or nil.
	params *pytext.Value
	entry  *object
}

// script reads a script's registry entry; it returns nil after reporting an error.
func (o *object) script(item listItem) *script {
	s := o.entry(dirScripts, fileScript, item, CodeScript, "script")
	if s == nil {
		return nil
	}
	s.Check(&scriptShape)
	out := &script{name: s.Required("name"), description: s.Required("description"), file: s.Required("script_file"), entry: s}
	if v := s.Expect("parameters_schema", source.Object); v != nil {
		s.a.CheckSchema(v, CodeSchema, "parameters_schema of "+s.Name)
		// The document has been parsed, so this cannot fail.
		out.params, _ = pytext.Parse(v.JSON())
	}
	return out
}

// usage describes for the model how to call the script, in the framework's exact text.
func (s *script) usage() string {
	head := fmt.Sprintf("## Local Script: %s\n**Description:** %s\n\n**Usage:**\n```bash\nuv run --script scripts/%s/%s", s.name, s.description, s.name, s.file)
	properties := s.params.Get("properties")
	if !properties.Truthy() {
		return head + "\n```"
	}
	required := map[string]bool{}
	if r := s.params.Get("required"); r != nil {
		for _, name := range r.Items {
			required[name.Text] = true
		}
	}
	var call, arguments strings.Builder
	for _, m := range properties.Members {
		flag := "--" + m.Key
		if p := hint(m.Key, m.Value); p != "" {
			flag += " " + p
		}
		if !required[m.Key] {
			flag = "[" + flag + "]"
		}
		call.WriteString(" " + flag)
		arguments.WriteString("\n" + argument(m.Key, m.Value, required[m.Key]))
	}
	return head + call.String() + "\n```\n\n**Arguments:**" + arguments.String()
}

func typeOf(def *pytext.Value) string {
	if t := def.Get("type"); t != nil {
		return t.Str()
	}
	return "string"
}

func hint(name string, def *pytext.Value) string {
	if enum := def.Get("enum"); enum != nil {
		return "<" + joined(enum, "|") + ">"
	}
	switch typeOf(def) {
	case "boolean":
		return ""
	case "integer", "number":
		return "<N>"
	case "array":
		return "<value1,value2,...>"
	}
	return "<" + name + ">"
}

func argument(name string, def *pytext.Value, required bool) string {
	parts := []string{"- `--" + name + "`", "(optional)"}
	if required {
		parts[1] = "(required)"
	}
	if enum := def.Get("enum"); enum != nil {
		parts = append(parts, "One of: "+joined(enum, ", "))
	} else if kind := typeOf(def); kind != "string" {
		parts = append(parts, "("+kind+")")
	}
	if v := def.Get("default"); v != nil {
		parts = append(parts, "[default: "+v.Str()+"]")
	}
	if v := def.Get("description"); v != nil {
		parts = append(parts, "- "+v.Str())
	}
	return strings.Join(parts, " ")
}

func joined(list *pytext.Value, sep string) string {
	return strings.Join(source.Map(list.Items, (*pytext.Value).Str), sep)
}

// procedural sets the program of a procedural agent: a script of the registry or a command.
func (g *agent) procedural() {
	script, command := g.Expect("script", source.String), g.Expect("command", source.String)
	if g.kind != typeProcedural {
		for _, v := range []*source.Value{script, command} {
			if v != nil {
				g.a.Warnf(v.Pos, CodeType, `set "type": "procedural", or remove it`, "%s is autonomous and runs no program", g.Name)
			}
		}
		return
	}
	switch {
	case script != nil && command != nil:
		g.a.Errorf(command.Pos, CodeTwice, "keep one of the two", "%s has both script and command", g.Name)
	case script != nil:
		s := g.script(listItem{script.Text, script.Pos})
		if s == nil {
			return
		}
		if s.params != nil {
			g.params = json.RawMessage(s.params.JSON())
		}
		g.program = &plan.Program{Script: script.Text, File: s.file, Seconds: programSeconds, SHA: s.fileHash(script.Text)}
	case command != nil:
		g.setCommand(command)
	default:
		g.a.Errorf(g.Value.Pos, CodeMissing, `set "script" to the name of a folder in scripts/`, "%s is procedural and has no script", g.Name)
	}
}

// programSeconds is the framework's timeout of a program.
const programSeconds = 300

// fileHash returns the SHA-256 of a script's file, which is pinned when a run starts; "" if the file is missing.
func (s *script) fileHash(id string) string {
	if s.file == "" {
		return "" // already reported
	}
	if !isLocal(s.file) {
		s.entry.a.Errorf(s.entry.Pos("script_file"), CodeScript, "use the path of a file next to "+fileScript, "script_file of %s is %s, which is outside its folder", s.entry.Name, source.Quote(s.file))
		return ""
	}
	if file, ok := s.entry.a.registryFile(dirScripts, id, s.file); ok {
		hash := sha256.Sum256([]byte(s.entry.a.files[file]))
		return hex.EncodeToString(hash[:])
	}
	report, consequence := s.entry.a.Warnf, "; runs cannot start without it"
	if s.entry.a.host.Starting {
		report, consequence = s.entry.a.Errorf, ", so the run cannot be pinned to it"
	}
	report(s.entry.Pos("script_file"), CodeScript, fmt.Sprintf("put the file into %s/%s/, or fix script_file", dirScripts, id),
		"%s refers to the file %s, which is not found%s", s.entry.Name, source.Quote(s.file), consequence)
	return ""
}

// isLocal reports whether a relative path does not leave its folder.
func isLocal(file string) bool {
	clean := path.Clean(file)
	return fs.ValidPath(clean) && clean != "." && !strings.ContainsAny(clean, `\:`)
}

// setCommand sets the agent's command as its program. The worker looks up the agent by its folder's name.
func (g *agent) setCommand(command *source.Value) {
	words, err := split(command.Text)
	switch {
	case err != nil:
		g.a.Errorf(command.Pos, CodeScript, "close the quotes", "the command of %s: %v", g.Name, err)
		return
	case len(words) == 0 || words[0] == "":
		g.a.Errorf(command.Pos, CodeScript, "set the program and its arguments", "the command of %s is empty", g.Name)
		return
	}
	folder := path.Base(path.Dir(g.file()))
	if path.Base(g.file()) != fileAgent || !plainName.MatchString(folder) || path.Base(path.Dir(path.Dir(g.file()))) != dirAgents {
		g.a.Warnf(command.Pos, CodeProgram, "put it into "+dirAgents+"/NAME/"+fileAgent+" in a folder that the worker trusts",
			"%s has a command but is not in a folder of %s/; it is looked up by name", g.Name, dirAgents)
		folder = g.name
	}
	g.program = &plan.Program{Agent: folder, Command: command.Text, Argv: words, Seconds: programSeconds}
}

// split splits a command into words like a shell, without expansion. It supports quotes, and backslashes
// outside of single quotes; in double quotes, only before " and \.
func split(s string) ([]string, error) {
	var words []string
	var word []byte // nil between words
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0 {
			words, word = appendWord(words, word), nil
			continue
		}
		if word == nil {
			word = []byte{}
		}
		switch {
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == '\\' && quote != '\'':
			if i++; i == len(s) {
				return nil, errors.New("trailing backslash")
			}
			if quote == '"' && strings.IndexByte(`"\`, s[i]) < 0 {
				word = append(word, '\\')
			}
			word = append(word, s[i])
		default:
			word = append(word, c)
		}
	}
	if quote != 0 {
		return nil, errors.New("unclosed quote")
	}
	return appendWord(words, word), nil
}

func appendWord(words []string, word []byte) []string {
	if word == nil {
		return words
	}
	return append(words, string(word))
}
