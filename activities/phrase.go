package activities

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/contract"
)

// phrase words one validation error as the blueprint dialect's framework does, which uses
// Python's validator; what it does not word stays as the library says it.
func phrase(e *jsonschema.ValidationError, value, rule any) []contract.FieldError {
	f := contract.FieldError{
		Path:       strings.Join(append([]string{"$"}, pointer(e.InstanceLocation)...), "."),
		SchemaPath: strings.Join(pointer(e.KeywordLocation), "/"),
		Message:    e.Message,
	}
	keyword := f.SchemaPath[strings.LastIndex(f.SchemaPath, "/")+1:]
	switch keyword {
	case "required":
		var out []contract.FieldError
		for _, name := range quoted.FindAllString(e.Message, -1) {
			f.Message = name + " is a required property"
			out = append(out, f)
		}
		return out
	case "type":
		f.Message = fmt.Sprintf("%s is not of type %s", python(value), typeNames(rule))
	case "enum":
		f.Message = fmt.Sprintf("%s is not one of %s", python(value), python(rule))
	case "additionalProperties":
		if names := quoted.FindAllString(e.Message, -1); len(names) > 0 {
			slices.Sort(names) // the library's order is random
			was := "was"
			if len(names) > 1 {
				was = "were"
			}
			f.Message = fmt.Sprintf("Additional properties are not allowed (%s %s unexpected)", strings.Join(names, ", "), was)
		}
	}
	return []contract.FieldError{f}
}

var quoted = regexp.MustCompile(`'(?:[^'\\]|\\.)*'`)

// pointer splits a JSON pointer, which the library writes as part of a URL.
func pointer(p string) []string {
	if p == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i := range parts {
		if plain, err := url.PathUnescape(parts[i]); err == nil {
			parts[i] = plain
		}
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(parts[i], "~1", "/"), "~0", "~")
	}
	return parts
}

// at follows a JSON pointer; nil where it leads nowhere.
func at(v any, p string) any {
	for _, part := range pointer(p) {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func typeNames(rule any) string {
	if list, ok := rule.([]any); ok {
		var names []string
		for _, t := range list {
			names = append(names, python(t))
		}
		return strings.Join(names, ", ")
	}
	return python(rule)
}

// python writes a JSON value as Python's repr does, long ones cut.
func python(v any) string {
	switch x := v.(type) {
	case nil:
		return "None"
	case bool:
		if x {
			return "True"
		}
		return "False"
	case json.Number:
		return x.String()
	case string:
		return pythonString(x)
	case []any:
		var items []string
		for _, i := range x {
			items = append(items, python(i))
		}
		return trim("["+strings.Join(items, ", "), 500) + "]"
	case map[string]any:
		var names []string
		for name := range x {
			names = append(names, name)
		}
		slices.Sort(names)
		var items []string
		for _, name := range names {
			items = append(items, pythonString(name)+": "+python(x[name]))
		}
		return trim("{"+strings.Join(items, ", "), 500) + "}"
	}
	return fmt.Sprint(v)
}

func pythonString(s string) string {
	s = trim(s, 500)
	q := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = `"`
	}
	r := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, q, `\`+q)
	return q + r.Replace(s) + q
}
