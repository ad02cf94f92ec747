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
)

// procedural reads what a procedural agent runs: a script of the registry, or a command.
func (g *agent) procedural() {
	script, command := g.Want("script", source.String), g.Want("command", source.String)
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
		g.runsScript(word{script.Text, script.Pos})
	case command != nil:
		g.runsCommand(command)
	default:
		g.a.Errorf(g.Value.Pos, CodeMissing, `set "script" to the name of a folder in scripts/`, "%s is procedural and has no script", g.Name)
	}
}

// programSeconds is the framework's limit of a program's time.
const programSeconds = 300

// runsScript makes the agent's program of a script.
func (g *agent) runsScript(w word) {
	s := g.script(w)
	if s == nil {
		return
	}
	if s.params != nil {
		g.params = json.RawMessage(s.params.JSON())
	}
	g.program = &plan.Program{Script: w.text, File: s.file, Seconds: programSeconds}
	g.program.SHA = s.sum(w.text)
}

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

// end closes a word, if one is open.
func end(words []string, word []byte) []string {
	if word == nil {
		return words
	}
	return append(words, string(word))
}
