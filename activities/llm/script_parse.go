package llm

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// maxScript bounds a script, in bytes.
const maxScript = 4 << 20

// RecordedField is the field of a script in which starter record keeps what else it knows of
// the run; the model leaves it alone.
const RecordedField = "recorded"

// failClasses are the failures that a script can play.
var failClasses = []string{
	contract.ClassRateLimited, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassBadRequest, contract.ClassContextLength,
	contract.ClassRefused, contract.ClassSchema, contract.ClassTooLarge, contract.ClassDenied, contract.ClassQuota, contract.ClassConnection,
}

// CanFail reports whether a script can play a failure of a class.
func CanFail(class string) bool { return slices.Contains(failClasses, class) }

// ParseScript reads a script written by a person, YAML or JSON, into the JSON that
// [Call]'s Script holds; README.md has the reference. name is the file's, for messages.
//
// Its error is a [contract.Failure] of class bad_request whose text has every problem, a
// line each, as file:line:column: problem.
func ParseScript(name string, data []byte) (json.RawMessage, error) {
	r := &scriptReader{name: name}
	s := r.read(data)
	if len(r.problems) == 0 {
		raw, err := textutil.JSON(s)
		if err == nil {
			return raw, nil
		}
		r.problems = append(r.problems, fmt.Sprintf("%s:1:1: %v", name, err))
	}
	return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: strings.Join(r.problems, "\n")}
}

// scriptReader reads a document and collects what is wrong with it.
type scriptReader struct {
	name     string
	problems []string
}

// maxProblems bounds the list: a file of another kind has one per line.
const maxProblems = 50

func (r *scriptReader) at(n *yaml.Node, format string, args ...any) {
	switch {
	case len(r.problems) == maxProblems:
		r.problems = append(r.problems, r.name+": and more")
	case len(r.problems) < maxProblems:
		r.problems = append(r.problems, fmt.Sprintf("%s:%d:%d: %s", r.name, max(1, n.Line), max(1, n.Column), fmt.Sprintf(format, args...)))
	}
}

func (r *scriptReader) read(data []byte) *script {
	s := &script{}
	start := &yaml.Node{Line: 1, Column: 1}
	if len(data) > maxScript {
		r.at(start, "script of %d bytes; want at most %d", len(data), maxScript)
		return s
	}
	root := r.document(data)
	if root == nil {
		return s
	}
	r.fields(root, "script", map[string]func(*yaml.Node){
		"rules":   func(n *yaml.Node) { r.rules(n, s) },
		"default": func(n *yaml.Node) { s.Default = r.defaultAction(n) },
		// What a recorded run expects beside what its models say: starter test reads it.
		RecordedField: func(*yaml.Node) {},
	})
	if len(r.problems) == 0 && len(s.Rules) == 0 && s.Default == nil {
		r.at(root, "the script has neither rules nor a default; want for example rules: [{node: NAME, say: TEXT}]")
	}
	return s
}

func (r *scriptReader) rules(n *yaml.Node, s *script) {
	if n.Kind != yaml.SequenceNode {
		r.at(n, "rules: want a list of rules")
		return
	}
	s.Rules = make([]Rule, len(n.Content))
	for i, item := range n.Content {
		r.rule(item, &s.Rules[i], fmt.Sprintf("rule %d", i+1))
	}
}

func (r *scriptReader) rule(n *yaml.Node, out *Rule, what string) {
	fields := r.actionFields(&out.Action)
	maps.Copy(fields, map[string]func(*yaml.Node){
		"at":       func(v *yaml.Node) { r.text(v, "at", &out.At) },
		"node":     func(v *yaml.Node) { r.text(v, "node", &out.Node) },
		"model":    func(v *yaml.Node) { r.text(v, "model", &out.Model) },
		"kind":     func(v *yaml.Node) { r.oneOf(v, "kind", &out.Kind, []string{KindAgent, KindJudge, KindCondense}) },
		"question": func(v *yaml.Node) { r.text(v, "question", &out.Question) },
		"step":     func(v *yaml.Node) { out.Step = r.count(v, "step", 0) },
		"turn":     func(v *yaml.Node) { out.Turn = r.count(v, "turn", 1) },
		"after":    func(v *yaml.Node) { r.text(v, "after", &out.After) },
		"text":     func(v *yaml.Node) { r.text(v, "text", &out.Text) },
		"contains": func(v *yaml.Node) { r.text(v, "contains", &out.Contains) },
		"match": func(v *yaml.Node) {
			r.text(v, "match", &out.Match)
			if _, err := regexp.Compile(out.Match); err != nil {
				r.at(v, "match: %v; want a regular expression in RE2 syntax", err)
			}
		},
	})
	if r.fields(n, what, fields) {
		r.checkAction(n, &out.Action, what)
	}
	if out.Question != "" && out.Kind != "" && out.Kind != KindJudge {
		r.at(n, "%s: only judges have a question; leave out kind: %s or question", what, out.Kind)
	}
}

func (r *scriptReader) defaultAction(n *yaml.Node) *Action {
	a := &Action{}
	if r.fields(n, "default", r.actionFields(a)) {
		r.checkAction(n, a, "default")
	}
	return a
}

// actionFields are the fields of an action, which rules and the default have.
func (r *scriptReader) actionFields(a *Action) map[string]func(*yaml.Node) {
	return map[string]func(*yaml.Node){
		"say":    func(v *yaml.Node) { a.Say = r.anyText(v, "say") },
		"json":   func(v *yaml.Node) { a.JSON = r.value(v, 0) },
		"call":   func(v *yaml.Node) { a.Call = r.calls(v) },
		"yes":    func(v *yaml.Node) { a.Yes = r.yesNo(v, "yes") },
		"reason": func(v *yaml.Node) { r.text(v, "reason", &a.Reason) },
		"delay":  func(v *yaml.Node) { r.duration(v, "delay", &a.Delay) },
		"stop": func(v *yaml.Node) {
			r.oneOf(v, "stop", &a.Stop, []string{"stop", "length", "tool_calls", "content_filter"})
		},
		"usage": func(v *yaml.Node) { a.Usage = r.usage(v) },
		"fail":  func(v *yaml.Node) { a.Fail = r.fail(v) },
	}
}

// checkAction checks that an action's fields go together.
func (r *scriptReader) checkAction(n *yaml.Node, a *Action, what string) {
	says := 0
	for _, set := range []bool{a.Say != nil, a.JSON != nil, a.Yes != nil} {
		if set {
			says++
		}
	}
	switch {
	case says > 1:
		r.at(n, "%s: say, json and yes exclude each other", what)
	case a.Yes != nil && len(a.Call) > 0:
		r.at(n, "%s: yes is a judge's answer, and judges call no tools", what)
	case !a.answers() && a.Fail == nil:
		r.at(n, "%s does nothing; want one of say, json, call, yes, fail", what)
	case a.Reason != "" && a.Yes == nil:
		r.at(n, "%s: reason belongs to yes", what)
	case a.answers() && a.Fail != nil && a.Fail.Times == 0:
		r.at(n, "%s: it always fails, so it never answers; give fail the field times, or leave out the answer", what)
	}
}

func (r *scriptReader) calls(n *yaml.Node) []ScriptCall {
	items := n.Content
	if n.Kind == yaml.MappingNode {
		items = []*yaml.Node{n} // one call needs no list
	} else if n.Kind != yaml.SequenceNode || len(items) == 0 {
		r.at(n, "call: want a list of calls like {tool: NAME, arguments: {...}}")
		return nil
	}
	out := make([]ScriptCall, len(items))
	for i, item := range items {
		c := &out[i]
		ok := r.fields(item, "call", map[string]func(*yaml.Node){
			"tool": func(v *yaml.Node) { r.text(v, "tool", &c.Tool) },
			"id":   func(v *yaml.Node) { r.text(v, "id", &c.ID) },
			"raw":  func(v *yaml.Node) { c.Raw = r.anyText(v, "raw") },
			"arguments": func(v *yaml.Node) {
				if c.Arguments = r.value(v, 0); v.Kind != yaml.MappingNode {
					r.at(v, "arguments: want an object; text that is no object goes into raw")
				}
			},
		})
		switch {
		case ok && c.Tool == "":
			r.at(item, "call: no tool; want tool: NAME")
		case c.Raw != nil && c.Arguments != nil:
			r.at(item, "call: arguments and raw exclude each other")
		}
	}
	return out
}

func (r *scriptReader) usage(n *yaml.Node) *ScriptUsage {
	u := &ScriptUsage{}
	set := func(field string, to *int) func(*yaml.Node) {
		return func(v *yaml.Node) {
			if c := r.count(v, field, 0); c != nil {
				*to = *c
			}
		}
	}
	r.fields(n, "usage", map[string]func(*yaml.Node){"input": set("input", &u.Input), "output": set("output", &u.Output),
		"cached": set("cached", &u.Cached), "cache_write": set("cache_write", &u.Written), "reasoning": set("reasoning", &u.Reasoning)})
	return u
}

func (r *scriptReader) fail(n *yaml.Node) *ScriptFail {
	f := &ScriptFail{}
	ok := r.fields(n, "fail", map[string]func(*yaml.Node){
		"class":       func(v *yaml.Node) { r.oneOf(v, "class", &f.Class, failClasses) },
		"text":        func(v *yaml.Node) { r.text(v, "text", &f.Text) },
		"retry_after": func(v *yaml.Node) { r.duration(v, "retry_after", &f.RetryAfter) },
		"times": func(v *yaml.Node) {
			if c := r.count(v, "times", 0); c != nil {
				f.Times = *c
			}
		},
	})
	if ok && f.Class == "" {
		r.at(n, "fail: no class; want one of %s", strings.Join(failClasses, ", "))
	}
	return f
}

// fields reads a mapping whose keys are all known. It reports whether every field was good.
func (r *scriptReader) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) bool {
	before := len(r.problems)
	if n.Kind != yaml.MappingNode {
		r.at(n, "%s: want fields, have %s", what, describe(n))
		return false
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, ok := known[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || !ok:
			r.at(key, "%s: unknown field %q; want %s", what, textutil.Truncate(key.Value, 60), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[key.Value]:
			r.at(key, "%s: field %q is given twice", what, key.Value)
		default:
			seen[key.Value] = true
			read(value)
		}
	}
	return len(r.problems) == before
}

// describe names a value for messages.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "an object"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.ShortTag() == "!!null":
		return "nothing"
	case n.ShortTag() == "!!str":
		return "the text " + strconv.Quote(textutil.Truncate(n.Value, 60))
	}
	return textutil.Truncate(n.Value, 60)
}

// anyText reads text, which may be empty.
func (r *scriptReader) anyText(n *yaml.Node, field string) *string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		r.at(n, "%s: want text, have %s; put it in quotes if it is meant as text", field, describe(n))
		return nil
	}
	return &n.Value
}

func (r *scriptReader) text(n *yaml.Node, field string, to *string) {
	s := r.anyText(n, field)
	if s == nil {
		return
	}
	if *s == "" {
		r.at(n, "%s is empty; leave it out or give it a value", field)
	}
	*to = *s
}

func (r *scriptReader) oneOf(n *yaml.Node, field string, to *string, want []string) {
	if !slices.Contains(want, n.Value) || n.Kind != yaml.ScalarNode {
		r.at(n, "%s: want one of %s, have %s", field, strings.Join(want, ", "), describe(n))
		return
	}
	*to = n.Value
}

func (r *scriptReader) count(n *yaml.Node, field string, least int) *int {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil || v < least || v > 1<<31-1 {
		r.at(n, "%s: want a whole number from %d on, have %s", field, least, describe(n))
		return nil
	}
	return &v
}

// yesNo reads a boolean; yes and no are what people write here.
func (r *scriptReader) yesNo(n *yaml.Node, field string) *bool {
	v, ok := map[string]bool{"true": true, "yes": true, "false": false, "no": false}[strings.ToLower(n.Value)]
	if n.Kind != yaml.ScalarNode || !ok {
		r.at(n, "%s: want true or false, have %s", field, describe(n))
		return nil
	}
	return &v
}

func (r *scriptReader) duration(n *yaml.Node, field string, to *string) {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < 0 || d > time.Hour {
		r.at(n, "%s: want a duration from 0s to 1h like 300ms or 2s, have %s", field, describe(n))
		return
	}
	*to = n.Value
}
