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

// found is an error and its place among the rules.
type found struct {
	Error
	order []int
}

// phraser words what one validation found.
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
			return // no one waits for it
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
		// Only where the way could not be followed.
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

// choices are the library's messages for rules of which Python reports the rule alone, without its causes.
var choices = map[string]bool{"anyOf failed": true, "oneOf failed": true}

// phrase words one failure as Python's validator does, or as the library does where it has no words for it.
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
	if say, ok := words[at.keyword]; ok {
		return phrased(say(at, shown, rule))
	}
	return phrased(e.Message)
}

// words are the messages of rules that have one each.
var words = map[string]func(at place, shown string, rule *pytext.Value) string{
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
		if known := at.parent.Get("items"); known != nil && len(at.value.Items) > len(known.Items) {
			for _, item := range at.value.Items[len(known.Items):] {
				extras = append(extras, item.ReprUpTo(maxShown))
			}
		}
		return "Additional items are not allowed (" + unexpected(extras) + ")"
	},
}

// then makes a message of the value, a text and, where the rule is shown, the rule.
func then(text string, showsRule bool) func(place, string, *pytext.Value) string {
	return func(_ place, shown string, rule *pytext.Value) string {
		if showsRule {
			return shown + text + rule.ReprUpTo(maxShown)
		}
		return shown + text
	}
}

// limit makes a message of the value and a text, which differs for the limit "none" or "some".
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

// required words each property that is not there.
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

// dependent words each property that another one wants.
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

// additional words properties that the schema does not know, sorted as Python does.
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
	known := at.parent.Get("properties")
	var extras []string
	for _, m := range at.value.Members {
		if at.ix.get(known, m.Key) == nil && !slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(m.Key) }) {
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

// oneOf words a choice of which no schema fits, or more than one.
func oneOf(message, shown string, rule *pytext.Value) string {
	var first, second int
	if n, _ := fmt.Sscanf(message, "valid against schemas at indexes %d and %d", &first, &second); n != 2 ||
		max(first, second) >= len(rule.Items) {
		return shown + " is not valid under any of the given schemas"
	}
	return fmt.Sprintf("%s is valid under each of %s, %s", shown, rule.Items[second].ReprUpTo(maxShown), rule.Items[first].ReprUpTo(maxShown))
}
