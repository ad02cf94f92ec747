package llm

import (
	"encoding/json"
	"maps"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of samples, in bytes except for the depth. A sample larger than minimalSample gets only what its schema requires;
// there is none larger than maxSample.
const (
	minimalSample = 64 << 10
	maxSample     = 1 << 20
	// valueBytes is the size of a value in addition to its text.
	valueBytes = 16
	// sampleDepth is twice the maximum depth of a value, because references and alternatives count, too.
	sampleDepth = 256
	// maxRepeated limits how often a part of a pattern is repeated to reach a minimum length.
	maxRepeated = 1000
)

// sampler creates values that match a JSON Schema.
type sampler struct {
	// root is the schema that references refer to.
	root  any
	label string
	used  int
	// active are the references around a value, minimal those within which only what is required is generated. A reference
	// that still contains itself has no finite value.
	active, minimal map[string]bool
	// ordinal makes the values of a list with unique items differ.
	ordinal int
}

// sample returns a value that matches a schema. It returns false if there is none within the limits.
func sample(schema any, label string) (any, bool) {
	p := &sampler{root: schema, label: label, active: map[string]bool{}, minimal: map[string]bool{}}
	return p.value(schema, 0, false)
}

func (p *sampler) value(schema any, depth int, minimal bool) (any, bool) {
	p.used += valueBytes
	if depth > sampleDepth || p.used > maxSample || schema == false {
		return nil, false
	}
	minimal = minimal || p.used > minimalSample
	s, _ := schema.(map[string]any) // without one, any value will do
	if v, ok := s["const"]; ok {
		return p.literal(v)
	}
	if to, ok := s["$ref"].(string); ok {
		return p.reference(to, omit(s, "$ref"), depth, minimal)
	}
	for _, list := range []string{"enum", "examples"} {
		if l, _ := s[list].([]any); len(l) > 0 {
			return p.literal(l[p.ordinal%len(l)])
		}
	}
	if all, _ := s["allOf"].([]any); len(all) > 0 {
		return p.value(p.mergeAll(omit(s, "allOf"), all), depth+1, minimal)
	}
	for _, list := range []string{"anyOf", "oneOf"} {
		if l, _ := s[list].([]any); len(l) > 0 {
			for _, alternative := range l {
				if v, ok := p.value(merge(omit(s, list), alternative), depth+1, minimal); ok {
					return v, true
				}
			}
			return nil, false
		}
	}
	return p.typed(s, depth, minimal)
}

// mergeAll returns a schema with the rules of others, or false if one of them matches no value.
func (p *sampler) mergeAll(s map[string]any, all []any) any {
	for _, part := range all {
		both, ok := merge(s, p.resolve(part)).(map[string]any)
		if !ok {
			return false
		}
		s = both
	}
	return s
}

// literal returns a value of the schema itself, and whether it is within the limits.
func (p *sampler) literal(v any) (any, bool) {
	raw, _ := json.Marshal(v)
	p.used += len(raw)
	return v, p.used <= maxSample
}

// reference returns a value for a reference. Within itself, the value is minimal so that it is finite.
func (p *sampler) reference(to string, siblings map[string]any, depth int, minimal bool) (any, bool) {
	minimal = minimal || p.active[to]
	active := p.active
	if minimal {
		active = p.minimal
	}
	if active[to] {
		return nil, false
	}
	active[to] = true
	defer delete(active, to)
	return p.value(merge(siblings, p.target(to)), depth+1, minimal)
}

func (p *sampler) typed(s map[string]any, depth int, minimal bool) (any, bool) {
	switch typeOf(s) {
	case "object":
		return p.object(s, depth, minimal)
	case "array":
		return p.array(s, depth, minimal)
	case "integer", "number":
		return p.number(s), true
	case "boolean":
		return p.ordinal%2 == 0, true
	case "null":
		return nil, true
	}
	text := p.text(s, minimal) // a string, or any value
	p.used += len(text)
	return text, p.used <= maxSample
}

func (p *sampler) object(s map[string]any, depth int, minimal bool) (any, bool) {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	list, _ := s["required"].([]any)
	required := map[string]bool{}
	for _, name := range list {
		if name, ok := name.(string); ok {
			required[name] = true
		}
	}
	minimal = minimal || s["maxProperties"] != nil
	names := slices.Sorted(maps.Keys(required))
	if !minimal {
		names = slices.Concat(names, slices.Sorted(maps.Keys(properties)))
	}
	for _, name := range names {
		if _, done := out[name]; done {
			continue
		}
		property, known := properties[name]
		if !known {
			property = s["additionalProperties"]
		}
		p.used += len(name)
		v, ok := p.value(property, depth+1, minimal)
		switch {
		case ok:
			out[name] = v
		case required[name]:
			return nil, false
		}
	}
	return out, true
}

func (p *sampler) array(s map[string]any, depth int, minimal bool) (any, bool) {
	minimum := intRule(s, "minItems", 0)
	n := minimum
	if !minimal && intRule(s, "maxItems", 1) > 0 {
		n = max(n, 1)
	}
	first, _ := s["prefixItems"].([]any)
	items := s["items"]
	if list, ok := items.([]any); ok {
		first, items = list, s["additionalItems"]
	}
	out := []any{}
	defer func(ordinal int) { p.ordinal = ordinal }(p.ordinal)
	for i := range n {
		element := items
		if i < len(first) {
			element = first[i]
		}
		if s["uniqueItems"] == true && i > 0 {
			p.ordinal++
		}
		v, ok := p.value(element, depth+1, minimal)
		if !ok {
			return out, len(out) >= minimum
		}
		out = append(out, v)
	}
	return out, true
}

// formats are examples of the formats that may be enforced.
var formats = map[string]string{
	"date": "2026-01-31", "time": "12:00:00Z", "date-time": "2026-01-31T12:00:00Z", "duration": "P1D", "email": "a@example.com", "hostname": "example.com",
	"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "uri-reference": "/", "uuid": "00000000-0000-4000-8000-000000000000", "json-pointer": "/a", "regex": "a",
}

// text returns an example of the format or pattern, or the label adapted to the length limits.
func (p *sampler) text(s map[string]any, minimal bool) string {
	format, _ := s["format"].(string)
	pattern, _ := s["pattern"].(string)
	text, minimum := "", min(intRule(s, "minLength", 0), maxSample)
	switch parsed, err := syntax.Parse(pattern, syntax.Perl); {
	case formats[format] != "":
		text = formats[format]
	case pattern != "" && err == nil:
		if text = matchPattern(parsed.Simplify(), 1); utf8.RuneCountInString(text) < minimum {
			text = matchPattern(parsed.Simplify(), min(minimum, maxRepeated))
		}
	default:
		if !minimal {
			text = p.label
		}
		text = strings.Repeat("#", p.ordinal) + text
		text += strings.Repeat(".", max(0, minimum-utf8.RuneCountInString(text)))
		text = string([]rune(text)[:min(intRule(s, "maxLength", math.MaxInt32), utf8.RuneCountInString(text))])
	}
	return text
}

// matchPattern returns a short text that matches a regular expression. Repeatable parts are repeated the given number of
// times.
func matchPattern(r *syntax.Regexp, times int) string {
	text := ""
	switch r.Op {
	case syntax.OpLiteral:
		return string(r.Rune)
	case syntax.OpCharClass:
		if len(r.Rune) > 0 {
			return string(r.Rune[len(r.Rune)-2]) // the last range: letters after digits
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpCapture, syntax.OpAlternate:
		return matchPattern(r.Sub[0], times)
	case syntax.OpPlus:
		return strings.Repeat(matchPattern(r.Sub[0], 1), times)
	case syntax.OpStar:
		return strings.Repeat(matchPattern(r.Sub[0], 1), times-1)
	case syntax.OpConcat:
		for _, part := range r.Sub {
			text += matchPattern(part, times)
		}
	}
	return text
}

// number returns the smallest number of at least 0 that a schema accepts, or the greatest negative one.
func (p *sampler) number(s map[string]any) any {
	rule := func(name string, absent float64) float64 {
		if n, ok := s[name].(float64); ok {
			return n
		}
		return absent
	}
	low := max(0, rule("minimum", 0), math.Nextafter(rule("exclusiveMinimum", -1), math.Inf(1)))
	high := min(rule("maximum", math.MaxFloat64), math.Nextafter(rule("exclusiveMaximum", math.Inf(1)), math.Inf(-1)))
	step := max(0, rule("multipleOf", 1))
	if step == 0 {
		step = 1
	}
	n := math.Ceil(low/step)*step + float64(p.ordinal)*step
	switch {
	case high < 0:
		n = math.Floor(high/step)*step - float64(p.ordinal)*step
	case n > high:
		n = low/2 + high/2 // there is no multiple between the limits
	}
	return n
}

// resolve returns a schema or, for a reference, the target merged with the siblings of the reference.
func (p *sampler) resolve(schema any) any {
	s, _ := schema.(map[string]any)
	if to, ok := s["$ref"].(string); ok {
		return merge(omit(s, "$ref"), p.target(to))
	}
	return schema
}

// target returns the target of a reference, or false, which matches no value, if it is not within the schema.
func (p *sampler) target(ref string) any {
	at := p.root
	path, inside := strings.CutPrefix(ref, "#")
	if !inside {
		return false
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step); step != "" {
			switch in := at.(type) {
			case map[string]any:
				at = in[step]
			case []any:
				i, err := strconv.Atoi(step)
				if err != nil || i < 0 || i >= len(in) {
					return false
				}
				at = in[i]
			}
			if at == nil {
				return false
			}
		}
	}
	return at
}

// merge returns a schema with the rules of two. The second one takes precedence; properties and required are combined.
func merge(s map[string]any, other any) any {
	if other == false {
		return false
	}
	o, _ := other.(map[string]any)
	out := map[string]any{}
	maps.Copy(out, s)
	for key, v := range o {
		switch have := out[key].(type) {
		case map[string]any:
			if more, ok := v.(map[string]any); ok && key == "properties" {
				have = maps.Clone(have)
				maps.Copy(have, more)
				v = have
			}
		case []any:
			if more, ok := v.([]any); ok && key == "required" {
				v = slices.Concat(have, more)
			}
		}
		out[key] = v
	}
	return out
}

func omit(s map[string]any, rule string) map[string]any {
	out := maps.Clone(s)
	delete(out, rule)
	return out
}

// intRule returns the value of an integer rule, or absent if it is not set.
func intRule(s map[string]any, rule string, absent int) int {
	n, ok := s[rule].(float64)
	if !ok {
		return absent
	}
	return int(min(max(0, n), math.MaxInt32))
}

// typeOf returns a schema's type; of several, the first one that is not null.
func typeOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		name := ""
		for _, each := range t {
			if name == "" || name == "null" {
				name, _ = each.(string)
			}
		}
		return name
	}
	if s["properties"] != nil || s["required"] != nil {
		return "object"
	}
	return ""
}
