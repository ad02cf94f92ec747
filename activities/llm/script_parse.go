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
	// maxScript is the maximum size of a script, in bytes.
	maxScript = 4 << 20
	// maxProblems is the maximum number of reported problems.
	maxProblems = 50
)

var failClasses = []string{
	contract.ClassRateLimited, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassBadRequest, contract.ClassContextLength,
	contract.ClassRefused, contract.ClassSchema, contract.ClassTooLarge, contract.ClassDenied, contract.ClassQuotaExceeded, contract.ClassConnection,
}

// CanFail reports whether a script can return a failure of a class.
func CanFail(class string) bool { return slices.Contains(failClasses, class) }

// ParseScript parses a script in YAML or JSON and returns the JSON for [Call].Script. README.md documents scripts. name is
// the file's name, for messages.
//
// Its error is a [contract.Failure] of class bad_request with a line, file:line:column: problem, for every problem.
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

// scriptReader decodes a document into a [script] and collects problems. A field's script tag is a rule for its value: see
// field and text; for an integer it is the minimum, for a list a description of its elements.
type scriptReader struct {
	name     string
	problems []string
}

func (r *scriptReader) problem(at source.Pos, format string, args ...any) {
	switch {
	case len(r.problems) == maxProblems:
		r.problems = append(r.problems, r.name+": further problems are not listed")
	case len(r.problems) < maxProblems:
		r.problems = append(r.problems, fmt.Sprintf("%s:%d:%d: %s", r.name, max(1, at.Line), max(1, at.Col), fmt.Sprintf(format, args...)))
	}
}

func (r *scriptReader) read(data []byte) *script {
	s := &script{}
	if len(data) > maxScript {
		r.problem(source.Pos{}, "script has %d bytes; the limit is %d", len(data), maxScript)
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
		r.problem(doc.Root.Pos, "the script has neither rules nor a default; add for example rules: [{node: NAME, say: TEXT}]")
	}
	return s
}

// object decodes an object into a struct by its json tags, and calls its check method if every field is valid.
func (r *scriptReader) object(v *source.Value, what string, into reflect.Value) {
	before := len(r.problems)
	if v.Kind != source.Object {
		r.problem(v.Pos, "%s: expected an object, got %s", what, v.Describe())
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
			r.problem(m.KeyPos, "%s: unknown field %q; expected one of %s", what, textutil.Truncate(m.Key, 60), strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
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

// field decodes one field by its type. rule is its script tag; with "ignored", an object's fields are not decoded.
func (r *scriptReader) field(v *source.Value, name, rule string, into reflect.Value) {
	if raw, ok := into.Addr().Interface().(*json.RawMessage); ok {
		if rule == "object" && v.Kind != source.Object {
			r.problem(v.Pos, "%s: expected an object; use raw for other text", name)
		}
		*raw = v.JSON()
		return
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(r.text(v, name, rule))
	case reflect.Int:
		minimum, _ := strconv.Atoi(rule) // no tag: 0
		into.SetInt(int64(r.count(v, name, minimum)))
	case reflect.Bool:
		into.SetBool(r.boolean(v, name))
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

// list decodes a list of objects. rule describes its elements. A single call need not be in a list.
func (r *scriptReader) list(v *source.Value, name, rule string, into reflect.Value) {
	items := v.Items
	switch {
	case v.Kind == source.Object && name == "call":
		items = []*source.Value{v}
	case v.Kind != source.Array, len(items) == 0 && name == "call":
		r.problem(v.Pos, "%s: expected a list of %s", name, rule)
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

// boolean decodes a boolean, or yes or no.
func (r *scriptReader) boolean(v *source.Value, name string) bool {
	text := v.Text
	if v.Kind == source.Bool {
		text = strconv.FormatBool(v.True)
	}
	value, ok := map[string]bool{"true": true, "yes": true, "false": false, "no": false}[strings.ToLower(text)]
	if !ok {
		r.problem(v.Pos, "%s: expected true or false, got %s", name, v.Describe())
	}
	return value
}

// text decodes a string. rule is "any", "regexp", "duration", "class", a list of values separated by |, or "" for a string
// that is not empty.
func (r *scriptReader) text(v *source.Value, name, rule string) string {
	switch rule {
	case "any", "", "regexp":
		if v.Kind != source.String {
			r.problem(v.Pos, "%s: expected text, got %s; put it in quotes if it is text", name, v.Describe())
		} else if v.Text == "" && rule != "any" {
			r.problem(v.Pos, "%s is empty; set a value or remove it", name)
		}
		if rule == "regexp" {
			if _, err := regexp.Compile(v.Text); err != nil {
				r.problem(v.Pos, "%s: %v; use a regular expression in RE2 syntax", name, err)
			}
		}
	case "duration":
		if d, err := time.ParseDuration(v.Text); err != nil || d < 0 || d > time.Hour {
			r.problem(v.Pos, "%s: expected a duration from 0s to 1h, such as 300ms or 2s, got %s", name, v.Describe())
		}
	default:
		allowed := strings.Split(rule, "|")
		if rule == "class" {
			allowed = failClasses
		}
		if !slices.Contains(allowed, v.Text) {
			r.problem(v.Pos, "%s: expected one of %s, got %s", name, strings.Join(allowed, ", "), v.Describe())
		}
	}
	return v.Text
}

func (r *scriptReader) count(v *source.Value, name string, minimum int) int {
	n, err := strconv.Atoi(v.Text)
	if v.Kind != source.Number || err != nil || n < minimum || n > 1<<31-1 {
		r.problem(v.Pos, "%s: expected an integer of at least %d, got %s", name, minimum, v.Describe())
	}
	return n
}

// check returns a problem of a rule whose fields are valid, or "". The other check methods do the same.
func (r *Rule) check(what string) string {
	if r.Question != "" && r.Kind != "" && r.Kind != KindJudge {
		return fmt.Sprintf("%s: only judges have a question; remove kind: %s or question", what, r.Kind)
	}
	return r.Action.check(what)
}

func (a *Action) check(what string) string {
	switch {
	case a.Say != nil && a.JSON != nil, a.Say != nil && a.Yes != nil, a.JSON != nil && a.Yes != nil:
		return what + ": say, json and yes are mutually exclusive"
	case a.Yes != nil && len(a.Call) > 0:
		return what + ": yes is a judge's answer, but judges call no tools"
	case !a.hasAnswer() && a.Fail == nil:
		return what + " has no action; set one of say, json, call, yes, fail"
	case a.Reason != "" && a.Yes == nil:
		return what + ": reason requires yes"
	case a.hasAnswer() && a.Fail != nil && a.Fail.Times == 0:
		return what + ": always fails, so it never answers; set times in fail, or remove the answer"
	}
	return ""
}

func (c *ScriptCall) check(what string) string {
	switch {
	case c.Tool == "":
		return what + ": tool is not set; set tool: NAME"
	case c.Raw != nil && c.Arguments != nil:
		return what + ": arguments and raw are mutually exclusive"
	}
	return ""
}

func (f *ScriptFail) check(what string) string {
	if f.Class == "" {
		return what + ": class is not set; set one of " + strings.Join(failClasses, ", ")
	}
	return ""
}
