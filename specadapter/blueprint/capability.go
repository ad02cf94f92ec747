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

// capability adds a capability to an agent, and returns its text and its script's usage.
func (g *agent) capability(c word) []string {
	if g.has[c.text] {
		g.a.Errorf(c.at, CodeTwice, "remove one of the two", "%s lists the capability %s twice", g.Name, source.Quote(c.text))
		return nil
	}
	g.has[c.text] = true
	o := g.entry(dirCapabilities, fileCapability, c, CodeCapability, "capability")
	if o == nil {
		return nil
	}
	o.Check(&capabilityShape)
	o.Required("name")
	o.Required("description")
	var parts []string
	text, hasText := g.a.registered(dirCapabilities, c.text, fileText)
	if hasText {
		parts = append(parts, g.a.markdown(text))
	}
	servers, hasServers := g.a.registered(dirCapabilities, c.text, fileCapMCP)
	if hasServers {
		g.serversOf(servers)
	}
	script := o.Expect("script", source.String)
	if script != nil {
		if s := o.script(word{script.Text, script.Pos}); s != nil {
			g.scripts = append(g.scripts, word{s.name, script.Pos})
			parts = append(parts, s.usage())
		}
	}
	o.checkParts(hasText, hasServers, script != nil)
	return parts
}

// checkParts warns of a type that its parts do not fit. Without a type they say it.
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

// entry returns a registry's entry, or nil after an error.
func (o *object) entry(registry, name string, w word, code, what string) *object {
	if !plainName.MatchString(w.text) {
		o.a.Errorf(w.at, code, "use the name of a folder in "+registry+"/", "%s has an invalid name of a %s: %s", o.Name, what, source.Quote(w.text))
		return nil
	}
	file, ok := o.a.registered(registry, w.text, name)
	if !ok {
		o.a.Errorf(w.at, code, fmt.Sprintf("add %s/%s/%s, or fix the name", registry, w.text, name),
			"%s refers to the %s %s, which is not found", o.Name, what, source.Quote(w.text))
		return nil
	}
	return o.a.open(file, what+" "+source.Quote(w.text))
}

type script struct {
	name, description, file string
	// params is its schema, or nil.
	params *pytext.Value
	entry  *object
}

// script reads an entry of the registry, or returns nil after a report.
func (o *object) script(w word) *script {
	s := o.entry(dirScripts, fileScript, w, CodeScript, "script")
	if s == nil {
		return nil
	}
	s.Check(&scriptShape)
	out := &script{name: s.Required("name"), description: s.Required("description"), file: s.Required("script_file"), entry: s}
	if v := s.Expect("parameters_schema", source.Object); v != nil {
		s.a.CheckSchema(v, CodeSchema, "parameters_schema of "+s.Name)
		// What the parser took, this takes too.
		out.params, _ = pytext.Parse(v.JSON())
	}
	return out
}

// usage tells a model how the script is called, in the framework's words.
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

// procedural reads what a procedural agent runs: a script of the registry, or a command.
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
		s := g.script(word{script.Text, script.Pos})
		if s == nil {
			return
		}
		if s.params != nil {
			g.params = json.RawMessage(s.params.JSON())
		}
		g.program = &plan.Program{Script: script.Text, File: s.file, Seconds: programSeconds, SHA: s.sum(script.Text)}
	case command != nil:
		g.runsCommand(command)
	default:
		g.a.Errorf(g.Value.Pos, CodeMissing, `set "script" to the name of a folder in scripts/`, "%s is procedural and has no script", g.Name)
	}
}

// programSeconds is the framework's limit of a program's time.
const programSeconds = 300

// sum returns the SHA-256 of a script's file, which a start pins, or "" where the file is missing.
func (s *script) sum(id string) string {
	if s.file == "" {
		return "" // reported
	}
	if !local(s.file) {
		s.entry.a.Errorf(s.entry.Pos("script_file"), CodeScript, "use the path of a file next to "+fileScript, "script_file of %s is %s, which is outside its folder", s.entry.Name, source.Quote(s.file))
		return ""
	}
	if file, ok := s.entry.a.registered(dirScripts, id, s.file); ok {
		sum := sha256.Sum256([]byte(s.entry.a.files[file]))
		return hex.EncodeToString(sum[:])
	}
	report, consequence := s.entry.a.Warnf, "; runs cannot start without it"
	if s.entry.a.host.Starting {
		report, consequence = s.entry.a.Errorf, ", so the run cannot be pinned to it"
	}
	report(s.entry.Pos("script_file"), CodeScript, fmt.Sprintf("put the file into %s/%s/, or fix script_file", dirScripts, id),
		"%s refers to the file %s, which is not found%s", s.entry.Name, source.Quote(s.file), consequence)
	return ""
}

// local reports whether a path stays in the folder from which it leads.
func local(file string) bool {
	clean := path.Clean(file)
	return fs.ValidPath(clean) && clean != "." && !strings.ContainsAny(clean, `\:`)
}

// runsCommand makes the agent's command its program. The worker finds the agent by its folder.
func (g *agent) runsCommand(command *source.Value) {
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

// split cuts a command into words as a shell does, without expanding anything: quotes,
// backslashes outside single quotes, and in double quotes before " and \ alone.
func split(s string) ([]string, error) {
	var words []string
	var word []byte // nil while none is open
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0 {
			words, word = end(words, word), nil
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
	return end(words, word), nil
}

func end(words []string, word []byte) []string {
	if word == nil {
		return words
	}
	return append(words, string(word))
}
