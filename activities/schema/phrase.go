package schema

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/textutil"
	"weft/workflows/plan/pytext"
)

// found is an error and the position of its rule in the schema.
type found struct {
	Error
	order []int
}

// phraser formats the errors of one validation.
type phraser struct {
	ctx          context.Context
	index        index
	rules, value *pytext.Value
	documented   bool
}

// all lists the errors in the order in which their rules are written; the library's order is random.
func (p *phraser) all(e *jsonschema.ValidationError) []Error {
	var all []found
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if p.ctx.Err() != nil {
			return // the caller has given up
		}
		if len(e.Causes) > 0 && !choices[e.Message] && !strings.HasPrefix(e.Message, "valid must be ") {
			for _, c := range e.Causes {
				visit(c)
			}
			return
		}
		all = append(all, p.phrase(e)...)
	}
	visit(e)
	slices.SortStableFunc(all, func(a, b found) int {
		if c := slices.Compare(a.order, b.order); c != 0 {
			return c
		}
		// Only if the rule was not found.
		return strings.Compare(a.Path+"\x00"+a.SchemaPath+"\x00"+a.Message, b.Path+"\x00"+b.SchemaPath+"\x00"+b.Message)
	})
	out := make([]Error, 0, len(all))
	for _, f := range all {
		if !slices.Contains(out[max(0, len(out)-1):], f.Error) {
			out = append(out, f.Error)
		}
	}
	if more := len(out) - MaxErrors; more > 0 {
		out = append(out[:MaxErrors:MaxErrors], Error{Path: "$", Message: fmt.Sprintf("and %d more errors", more)})
	}
	return out
}

// choices are the library's messages for rules that Python reports without their causes.
var choices = map[string]bool{"anyOf failed": true, "oneOf failed": true}

// phrase formats one failure as Python's validator does; for other rules it returns the library's message.
func (p *phraser) phrase(e *jsonschema.ValidationError) []found {
	at := locate(p.index, p.rules, p.value, e.KeywordLocation, e.InstanceLocation)
	base := found{order: at.order, Error: Error{Path: at.shownPath(p.documented), SchemaPath: at.shownWay(p.documented), Message: e.Message}}
	phrased := func(messages ...string) []found {
		var out []found
		for i, m := range messages {
			f := base
			f.Message, f.order = m, append(slices.Clone(base.order), i)
			out = append(out, f)
		}
		return out
	}
	if at.value == nil {
		at.value = &pytext.Value{}
	}
	shown := at.value.ReprUpTo(maxShown)
	if e.Message == "not allowed" {
		return phrased("False schema does not allow " + shown)
	}
	rule := at.parent.Get(at.keyword)
	if rule == nil {
		return phrased(e.Message)
	}
	switch at.keyword {
	case "required":
		return p.required(base, at.value, rule)
	case "dependencies", "dependentRequired":
		return phrased(dependent(p.index, at.value, rule)...)
	case "type":
		return phrased(fmt.Sprintf("%s is not of type %s", shown, typeNames(rule)))
	case "oneOf":
		return phrased(oneOf(e.Message, shown, rule))
	}
	if format, ok := formats[at.keyword]; ok {
		return phrased(format(at, shown, rule))
	}
	return phrased(e.Message)
}

// formats returns the messages of rules with a single message.
var formats = map[string]func(at place, shown string, rule *pytext.Value) string{
	"enum":                 then(" is not one of ", true),
	"const":                func(_ place, _ string, rule *pytext.Value) string { return rule.ReprUpTo(maxShown) + " was expected" },
	"minLength":            limit("1", " should be non-empty", " is too short"),
	"maxLength":            limit("0", " is expected to be empty", " is too long"),
	"minItems":             limit("1", " should be non-empty", " is too short"),
	"maxItems":             limit("0", " is expected to be empty", " is too long"),
	"minProperties":        limit("1", " should be non-empty", " does not have enough properties"),
	"maxProperties":        limit("0", " is expected to be empty", " has too many properties"),
	"minimum":              then(" is less than the minimum of ", true),
	"maximum":              then(" is greater than the maximum of ", true),
	"exclusiveMinimum":     then(" is less than or equal to the minimum of ", true),
	"exclusiveMaximum":     then(" is greater than or equal to the maximum of ", true),
	"multipleOf":           then(" is not a multiple of ", true),
	"pattern":              then(" does not match ", true),
	"format":               then(" is not a ", true),
	"uniqueItems":          then(" has non-unique elements", false),
	"anyOf":                then(" is not valid under any of the given schemas", false),
	"not":                  then(" should not be valid under ", true),
	"additionalProperties": additional,
	"contains": func(_ place, shown string, _ *pytext.Value) string {
		return "None of " + shown + " are valid under the given schema"
	},
	"additionalItems": func(at place, _ string, _ *pytext.Value) string {
		var extras []string
		if allowed := at.parent.Get("items"); allowed != nil && len(at.value.Items) > len(allowed.Items) {
			for _, item := range at.value.Items[len(allowed.Items):] {
				extras = append(extras, item.ReprUpTo(maxShown))
			}
		}
		return "Additional items are not allowed (" + unexpected(extras) + ")"
	},
}

// then returns a message of the value, a text and, if showsRule, the rule.
func then(text string, showsRule bool) func(place, string, *pytext.Value) string {
	return func(_ place, shown string, rule *pytext.Value) string {
		if showsRule {
			return shown + text + rule.ReprUpTo(maxShown)
		}
		return shown + text
	}
}

// limit returns a message of the value and a text, which depends on whether the limit is special.
func limit(special, text, otherwise string) func(place, string, *pytext.Value) string {
	return func(_ place, shown string, rule *pytext.Value) string {
		if rule.Text == special || rule.Text == special+".0" {
			return shown + text
		}
		return shown + otherwise
	}
}

func typeNames(rule *pytext.Value) string {
	if rule.Kind != pytext.Array {
		return rule.ReprUpTo(maxShown)
	}
	var names []string
	for _, t := range rule.Items {
		names = append(names, t.ReprUpTo(maxShown))
	}
	return strings.Join(names, ", ")
}

// required reports each missing property.
func (p *phraser) required(base found, v, rule *pytext.Value) []found {
	var out []found
	for i, name := range rule.Items {
		if p.index.get(v, name.Text) != nil {
			continue
		}
		f := base
		f.Message, f.order = name.ReprUpTo(maxShown)+" is a required property", append(slices.Clone(base.order), i)
		if p.documented {
			f.Path += "." + name.Text
		}
		out = append(out, f)
	}
	return out
}

// dependent reports each missing property that another one requires.
func dependent(ix index, v, rule *pytext.Value) []string {
	var out []string
	for _, m := range rule.Members {
		if m.Value.Kind != pytext.Array || ix.get(v, m.Key) == nil {
			continue
		}
		for _, name := range m.Value.Items {
			if ix.get(v, name.Text) == nil {
				out = append(out, fmt.Sprintf("%s is a dependency of %s", name.ReprUpTo(maxShown), textutil.Cut(pytext.Quote(m.Key), maxShown)))
			}
		}
	}
	return out
}

// additional reports properties that the schema does not allow, sorted as Python does.
func additional(at place, _ string, _ *pytext.Value) string {
	var patterns []*regexp.Regexp
	var written []string
	if p := at.parent.Get("patternProperties"); p != nil {
		for _, m := range p.Members {
			if re, err := regexp.Compile(m.Key); err == nil {
				patterns, written = append(patterns, re), append(written, pytext.Quote(m.Key))
			}
		}
	}
	properties := at.parent.Get("properties")
	var extras []string
	for _, m := range at.value.Members {
		if at.ix.get(properties, m.Key) == nil && !slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(m.Key) }) {
			extras = append(extras, m.Key)
		}
	}
	slices.Sort(extras)
	for i := range extras {
		extras[i] = pytext.Quote(extras[i])
	}
	if len(patterns) == 0 {
		return "Additional properties are not allowed (" + unexpected(extras) + ")"
	}
	slices.Sort(written)
	verb := "do"
	if len(extras) == 1 {
		verb = "does"
	}
	return fmt.Sprintf("%s %s not match any of the regexes: %s", textutil.Cut(strings.Join(extras, ", "), maxShown), verb, textutil.Cut(strings.Join(written, ", "), maxShown))
}

func unexpected(extras []string) string {
	was := "was"
	if len(extras) != 1 {
		was = "were"
	}
	return textutil.Cut(strings.Join(extras, ", "), maxShown) + " " + was + " unexpected"
}

// oneOf reports a value that is valid under none or several of the schemas.
func oneOf(message, shown string, rule *pytext.Value) string {
	var first, second int
	if n, _ := fmt.Sscanf(message, "valid against schemas at indexes %d and %d", &first, &second); n != 2 ||
		max(first, second) >= len(rule.Items) {
		return shown + " is not valid under any of the given schemas"
	}
	return fmt.Sprintf("%s is valid under each of %s, %s", shown, rule.Items[second].ReprUpTo(maxShown), rule.Items[first].ReprUpTo(maxShown))
}
