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
	s, err := readScript(name, data)
	if err != nil {
		return nil, err
	}
	return textutil.JSON(s)
}

func readScript(name string, data []byte) (*script, error) {
	r := &scriptReader{name: name}
	s := r.read(data)
	if len(r.problems) > 0 {
		return nil, failf(contract.ClassBadRequest, "", "%s", strings.Join(r.problems, "\n"))
	}
	return s, nil
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

// object decodes an object into a struct by its json tags, and checks it if every field is valid.
func (r *scriptReader) object(v *source.Value, what string, into reflect.Value) {
	before := len(r.problems)
	if v.Kind != source.Object {
		r.problem(v.Pos, "%s: want fields, have %s", what, v.Describe())
		return
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
		r.field(m.Value, m.Key, f.Tag.Get("script"), into.FieldByIndex(f.Index))
	}
	checked, ok := into.Addr().Interface().(interface{ check(what string) string })
	if !ok || len(r.problems) > before {
		return
	}
	if problem := checked.check(what); problem != "" {
		r.problem(v.Pos, "%s", problem)
	}
}

// field decodes one field by its type. rule is its script tag.
func (r *scriptReader) field(v *source.Value, name, rule string, into reflect.Value) {
	if raw, ok := into.Addr().Interface().(*json.RawMessage); ok {
		if rule == "object" && v.Kind != source.Object {
			r.problem(v.Pos, "%s: want an object; text that is not an object goes into raw", name)
		}
		*raw = v.JSON()
		return
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(r.text(v, name, rule))
	case reflect.Int:
		least, _ := strconv.Atoi(rule) // no tag: 0
		into.SetInt(int64(r.count(v, name, least)))
	case reflect.Bool:
		into.SetBool(r.yes(v, name))
	case reflect.Slice:
		r.list(v, name, rule, into)
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		r.field(v, name, rule, into.Elem())
	case reflect.Struct:
		if rule != "ignored" {
			r.object(v, name, into)
		}
	}
}

// list decodes a list of objects. rule says what is wanted; one call needs no list.
func (r *scriptReader) list(v *source.Value, name, rule string, into reflect.Value) {
	items := v.Items
	switch {
	case v.Kind == source.Object && name == "call":
		items = []*source.Value{v}
	case v.Kind != source.Array, len(items) == 0 && name == "call":
		r.problem(v.Pos, "%s: want a list of %s", name, rule)
	}
	into.Set(reflect.MakeSlice(into.Type(), len(items), len(items)))
	for i, item := range items {
		what := name
		if name == "rules" {
			what = fmt.Sprintf("rule %d", i+1)
		}
		r.object(item, what, into.Index(i))
	}
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

// text decodes a text. rule is "any", "regexp", "duration", "class", a list of values separated by |, or empty for one
// that is not empty.
func (r *scriptReader) text(v *source.Value, name, rule string) string {
	switch rule {
	case "any", "", "regexp":
		if v.Kind != source.String {
			r.problem(v.Pos, "%s: want text, have %s; put it in quotes if it is meant as text", name, v.Describe())
		} else if v.Text == "" && rule != "any" {
			r.problem(v.Pos, "%s is empty; leave it out or give it a value", name)
		}
		if rule == "regexp" {
			if _, err := regexp.Compile(v.Text); err != nil {
				r.problem(v.Pos, "%s: %v; want a regular expression in RE2 syntax", name, err)
			}
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

// check says what is wrong with a rule whose fields are valid; the other checks do the same.
func (r *Rule) check(what string) string {
	if r.Question != "" && r.Kind != "" && r.Kind != KindJudge {
		return fmt.Sprintf("%s: only judges have a question; leave out kind: %s or question", what, r.Kind)
	}
	return r.Action.check(what)
}

func (a *Action) check(what string) string {
	switch {
	case a.Say != nil && a.JSON != nil, a.Say != nil && a.Yes != nil, a.JSON != nil && a.Yes != nil:
		return what + ": say, json and yes exclude each other"
	case a.Yes != nil && len(a.Call) > 0:
		return what + ": yes is a judge's answer, and judges call no tools"
	case !a.answers() && a.Fail == nil:
		return what + " does nothing; want one of say, json, call, yes, fail"
	case a.Reason != "" && a.Yes == nil:
		return what + ": reason belongs to yes"
	case a.answers() && a.Fail != nil && a.Fail.Times == 0:
		return what + ": it always fails, so it never answers; give fail the field times, or leave out the answer"
	}
	return ""
}

func (c *ScriptCall) check(what string) string {
	switch {
	case c.Tool == "":
		return what + ": no tool; want tool: NAME"
	case c.Raw != nil && c.Arguments != nil:
		return what + ": arguments and raw exclude each other"
	}
	return ""
}

func (f *ScriptFail) check(what string) string {
	if f.Class == "" {
		return what + ": no class; want one of " + strings.Join(failClasses, ", ")
	}
	return ""
}
