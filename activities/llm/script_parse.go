package llm

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/specadapter/source"
)

const (
	// maxScript bounds a script, in bytes.
	maxScript = 4 << 20
	// maxProblems bounds the list of problems.
	maxProblems = 50
)

// failClasses are the failures that a script can return.
var failClasses = []string{
	contract.ClassRateLimited, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassBadRequest, contract.ClassContextLength,
	contract.ClassRefused, contract.ClassSchema, contract.ClassTooLarge, contract.ClassDenied, contract.ClassQuotaExceeded, contract.ClassConnection,
}

// CanFail reports whether a script can return a failure of a class.
func CanFail(class string) bool { return slices.Contains(failClasses, class) }

// ParseScript reads a script, YAML or JSON, into the JSON of [Call]'s Script; README.md has the reference.
// name is the file's, for messages.
//
// Its error is a [contract.Failure] of class bad_request with every problem, a line each, as file:line:column:
// problem.
func ParseScript(name string, data []byte) (json.RawMessage, error) {
	r := &scriptReader{name: name}
	s := r.read(data)
	if len(r.problems) > 0 {
		return nil, failf(contract.ClassBadRequest, "", "%s", strings.Join(r.problems, "\n"))
	}
	return textutil.JSON(s)
}

// scriptReader decodes a document into a [script] and collects its problems.
type scriptReader struct {
	name     string
	problems []string
}

func (r *scriptReader) problem(at source.Pos, format string, args ...any) {
	switch {
	case len(r.problems) == maxProblems:
		r.problems = append(r.problems, r.name+": and more")
	case len(r.problems) < maxProblems:
		r.problems = append(r.problems, fmt.Sprintf("%s:%d:%d: %s", r.name, max(1, at.Line), max(1, at.Col), fmt.Sprintf(format, args...)))
	}
}

func (r *scriptReader) read(data []byte) *script {
	s := &script{}
	if len(data) > maxScript {
		r.problem(source.Pos{}, "script of %d bytes; want at most %d", len(data), maxScript)
		return s
	}
	format := "script.yaml"
	if json.Valid(data) {
		format = "script.json"
	}
	doc, diags := source.ParseLoose(format, data)
	for _, d := range diags {
		text := d.Text
		switch d.Code {
		case source.CodeEmpty:
			text = "the script is empty"
		case source.CodeSyntax:
			text = "neither JSON nor YAML: " + text
		}
		r.problem(source.Pos{Line: d.Line, Col: d.Col}, "%s", text)
	}
	if doc == nil {
		return s
	}
	r.object(doc.Root, "script", reflect.ValueOf(s).Elem())
	if len(r.problems) == 0 && len(s.Rules) == 0 && s.Default == nil {
		r.problem(doc.Root.Pos, "the script has neither rules nor a default; want for example rules: [{node: NAME, say: TEXT}]")
	}
	return s
}

// object decodes an object into a struct by its json tags. It reports whether every field is valid.
func (r *scriptReader) object(v *source.Value, what string, into reflect.Value) bool {
	before := len(r.problems)
	if v.Kind != source.Object {
		r.problem(v.Pos, "%s: want fields, have %s", what, v.Describe())
		return false
	}
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(into.Type()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields[name] = f
		}
	}
	for _, m := range v.Members {
		f, known := fields[m.Key]
		if !known {
			r.problem(m.KeyPos, "%s: unknown field %q; want %s", what, textutil.Truncate(m.Key, 60), strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			continue
		}
		r.field(m.Value, m.Key, f.Tag.Get("script"), into.FieldByIndex(f.Index).Addr().Interface())
	}
	return len(r.problems) == before
}

// field decodes one field by its type. rule is its script tag.
func (r *scriptReader) field(v *source.Value, name, rule string, to any) {
	switch to := to.(type) {
	case *string:
		*to = r.text(v, name, rule)
	case **string:
		if r.isText(v, name) {
			*to = &v.Text
		}
	case *int:
		*to = r.count(v, name, 0)
	case **int:
		least, _ := strconv.Atoi(rule) // no tag: 0
		n := r.count(v, name, least)
		*to = &n
	case **bool:
		yes := r.yes(v, name)
		*to = &yes
	case *json.RawMessage:
		if rule == "object" && v.Kind != source.Object {
			r.problem(v.Pos, "%s: want an object; text that is not an object goes into raw", name)
		}
		*to = v.JSON()
	case *[]Rule:
		r.rules(v, to)
	case *[]ScriptCall:
		r.calls(v, to)
	default:
		r.part(v, name, to)
	}
}

// part decodes an object that is a part of a rule.
func (r *scriptReader) part(v *source.Value, name string, to any) {
	switch to := to.(type) {
	case **Action:
		*to = &Action{}
		if r.object(v, name, reflect.ValueOf(*to).Elem()) {
			r.checkAction(v.Pos, *to, name)
		}
	case **ScriptUsage:
		*to = &ScriptUsage{}
		r.object(v, name, reflect.ValueOf(*to).Elem())
	case **ScriptFail:
		*to = &ScriptFail{}
		if r.object(v, name, reflect.ValueOf(*to).Elem()) && (*to).Class == "" {
			r.problem(v.Pos, "fail: no class; want one of %s", strings.Join(failClasses, ", "))
		}
	}
}

// isText reports whether a value is text, which may be empty.
func (r *scriptReader) isText(v *source.Value, name string) bool {
	if v.Kind != source.String {
		r.problem(v.Pos, "%s: want text, have %s; put it in quotes if it is meant as text", name, v.Describe())
	}
	return v.Kind == source.String
}

// yes decodes a boolean; yes and no are accepted, too.
func (r *scriptReader) yes(v *source.Value, name string) bool {
	text := v.Text
	if v.Kind == source.Bool {
		text = strconv.FormatBool(v.True)
	}
	yes, ok := map[string]bool{"true": true, "yes": true, "false": false, "no": false}[strings.ToLower(text)]
	if !ok {
		r.problem(v.Pos, "%s: want true or false, have %s", name, v.Describe())
	}
	return yes
}

// text decodes a text that is not empty. rule is "regexp", "duration", "class", a list of values
// separated by | or empty.
func (r *scriptReader) text(v *source.Value, name, rule string) string {
	var err error
	switch rule {
	case "", "regexp":
		if r.isText(v, name) && v.Text == "" {
			r.problem(v.Pos, "%s is empty; leave it out or give it a value", name)
		}
		if _, err = regexp.Compile(v.Text); rule == "regexp" && err != nil {
			r.problem(v.Pos, "%s: %v; want a regular expression in RE2 syntax", name, err)
		}
	case "duration":
		if d, err := time.ParseDuration(v.Text); err != nil || d < 0 || d > time.Hour {
			r.problem(v.Pos, "%s: want a duration from 0s to 1h like 300ms or 2s, have %s", name, v.Describe())
		}
	default:
		want := strings.Split(rule, "|")
		if rule == "class" {
			want = failClasses
		}
		if !slices.Contains(want, v.Text) {
			r.problem(v.Pos, "%s: want one of %s, have %s", name, strings.Join(want, ", "), v.Describe())
		}
	}
	return v.Text
}

func (r *scriptReader) count(v *source.Value, name string, least int) int {
	n, err := strconv.Atoi(v.Text)
	if v.Kind != source.Number || err != nil || n < least || n > 1<<31-1 {
		r.problem(v.Pos, "%s: want a whole number from %d on, have %s", name, least, v.Describe())
	}
	return n
}

func (r *scriptReader) rules(v *source.Value, to *[]Rule) {
	if v.Kind != source.Array {
		r.problem(v.Pos, "rules: want a list of rules")
		return
	}
	*to = make([]Rule, len(v.Items))
	for i, item := range v.Items {
		what, rule := fmt.Sprintf("rule %d", i+1), &(*to)[i]
		if r.object(item, what, reflect.ValueOf(rule).Elem()) {
			r.checkAction(item.Pos, &rule.Action, what)
		}
		if rule.Question != "" && rule.Kind != "" && rule.Kind != KindJudge {
			r.problem(item.Pos, "%s: only judges have a question; leave out kind: %s or question", what, rule.Kind)
		}
	}
}

func (r *scriptReader) calls(v *source.Value, to *[]ScriptCall) {
	items := v.Items
	if v.Kind == source.Object {
		items = []*source.Value{v} // one call needs no list
	} else if len(items) == 0 {
		r.problem(v.Pos, "call: want a list of calls like {tool: NAME, arguments: {...}}")
	}
	*to = make([]ScriptCall, len(items))
	for i, item := range items {
		c := &(*to)[i]
		ok := r.object(item, "call", reflect.ValueOf(c).Elem())
		switch {
		case ok && c.Tool == "":
			r.problem(item.Pos, "call: no tool; want tool: NAME")
		case c.Raw != nil && c.Arguments != nil:
			r.problem(item.Pos, "call: arguments and raw exclude each other")
		}
	}
}

// checkAction checks that an action's fields go together.
func (r *scriptReader) checkAction(at source.Pos, a *Action, what string) {
	answers := 0
	for _, set := range []bool{a.Say != nil, a.JSON != nil, a.Yes != nil} {
		if set {
			answers++
		}
	}
	switch {
	case answers > 1:
		r.problem(at, "%s: say, json and yes exclude each other", what)
	case a.Yes != nil && len(a.Call) > 0:
		r.problem(at, "%s: yes is a judge's answer, and judges call no tools", what)
	case !a.answers() && a.Fail == nil:
		r.problem(at, "%s does nothing; want one of say, json, call, yes, fail", what)
	case a.Reason != "" && a.Yes == nil:
		r.problem(at, "%s: reason belongs to yes", what)
	case a.answers() && a.Fail != nil && a.Fail.Times == 0:
		r.problem(at, "%s: it always fails, so it never answers; give fail the field times, or leave out the answer", what)
	}
}
