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

// Bounds on samples, in bytes but for the depth: beyond smallSample only what a schema requires is given, and beyond
// maxSample nothing.
const (
	smallSample = 64 << 10
	maxSample   = 1 << 20
	// valueBytes is what a value counts beside its text.
	valueBytes = 16
	// sampleDepth is twice as deep as a value may be: references and alternatives count, too.
	sampleDepth = 256
	// maxRepeated bounds how often a part of a pattern is repeated for a least length.
	maxRepeated = 1000
)

// sampler makes values of the shape of a JSON Schema.
type sampler struct {
	// root is the schema that references point into.
	root  any
	label string
	spent int
	// open are the references around a value, small those below which only what is required is given: one inside
	// itself has no value that ends.
	open, small map[string]bool
	// ordinal makes values differ where a list must not repeat one.
	ordinal int
}

// sample makes a value of the shape of a schema. It is false where there is none, or none within the bounds.
func sample(schema any, label string) (any, bool) {
	p := &sampler{root: schema, label: label, open: map[string]bool{}, small: map[string]bool{}}
	return p.value(schema, 0, false)
}

func (p *sampler) value(schema any, depth int, small bool) (any, bool) {
	p.spent += valueBytes
	if depth > sampleDepth || p.spent > maxSample || schema == false {
		return nil, false
	}
	small = small || p.spent > smallSample
	s, _ := schema.(map[string]any) // without one, any value will do
	if v, ok := s["const"]; ok {
		return p.given(v)
	}
	if to, ok := s["$ref"].(string); ok {
		return p.referred(to, without(s, "$ref"), depth, small)
	}
	for _, list := range []string{"enum", "examples"} {
		if l, _ := s[list].([]any); len(l) > 0 {
			return p.given(l[p.ordinal%len(l)])
		}
	}
	if all, _ := s["allOf"].([]any); len(all) > 0 {
		return p.value(p.together(without(s, "allOf"), all), depth+1, small)
	}
	for _, list := range []string{"anyOf", "oneOf"} {
		if l, _ := s[list].([]any); len(l) > 0 {
			for _, alternative := range l {
				if v, ok := p.value(merged(without(s, list), alternative), depth+1, small); ok {
					return v, true
				}
			}
			return nil, false
		}
	}
	return p.typed(s, depth, small)
}

// together is a schema with the rules of some others, or false.
func (p *sampler) together(s map[string]any, all []any) any {
	for _, part := range all {
		both, ok := merged(s, p.resolved(part)).(map[string]any)
		if !ok {
			return false
		}
		s = both
	}
	return s
}

// given is a value that the schema has.
func (p *sampler) given(v any) (any, bool) {
	raw, _ := json.Marshal(v)
	p.spent += len(raw)
	return v, p.spent <= maxSample
}

// referred is a value of what a reference points to. Inside itself, it is one that ends.
func (p *sampler) referred(to string, beside map[string]any, depth int, small bool) (any, bool) {
	small = small || p.open[to]
	around := p.open
	if small {
		around = p.small
	}
	if around[to] {
		return nil, false
	}
	around[to] = true
	defer delete(around, to)
	return p.value(merged(beside, p.target(to)), depth+1, small)
}

func (p *sampler) typed(s map[string]any, depth int, small bool) (any, bool) {
	switch typeOf(s) {
	case "object":
		return p.object(s, depth, small)
	case "array":
		return p.array(s, depth, small)
	case "integer", "number":
		return p.number(s), true
	case "boolean":
		return p.ordinal%2 == 0, true
	case "null":
		return nil, true
	}
	text := p.text(s, small) // a string, or any value
	p.spent += len(text)
	return text, p.spent <= maxSample
}

func (p *sampler) object(s map[string]any, depth int, small bool) (any, bool) {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	list, _ := s["required"].([]any)
	required := map[string]bool{}
	for _, name := range list {
		if name, ok := name.(string); ok {
			required[name] = true
		}
	}
	small = small || s["maxProperties"] != nil
	names := slices.Sorted(maps.Keys(required))
	if !small {
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
		p.spent += len(name)
		v, ok := p.value(property, depth+1, small)
		switch {
		case ok:
			out[name] = v
		case required[name]:
			return nil, false
		}
	}
	return out, true
}

func (p *sampler) array(s map[string]any, depth int, small bool) (any, bool) {
	least := size(s, "minItems", 0)
	n := least
	if !small && size(s, "maxItems", 1) > 0 {
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
		v, ok := p.value(element, depth+1, small)
		if !ok {
			return out, len(out) >= least
		}
		out = append(out, v)
	}
	return out, true
}

// formats are texts of the formats that may be rules.
var formats = map[string]string{
	"date": "2026-01-31", "time": "12:00:00Z", "date-time": "2026-01-31T12:00:00Z", "duration": "P1D", "email": "a@example.com", "hostname": "example.com",
	"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "uri-reference": "/", "uuid": "00000000-0000-4000-8000-000000000000", "json-pointer": "/a", "regex": "a",
}

// text is the label, within the schema's bounds.
func (p *sampler) text(s map[string]any, small bool) string {
	format, _ := s["format"].(string)
	pattern, _ := s["pattern"].(string)
	text, least := "", min(size(s, "minLength", 0), maxSample)
	switch parsed, err := syntax.Parse(pattern, syntax.Perl); {
	case formats[format] != "":
		text = formats[format]
	case pattern != "" && err == nil:
		if text = matching(parsed.Simplify(), 1); utf8.RuneCountInString(text) < least {
			text = matching(parsed.Simplify(), min(least, maxRepeated))
		}
	default:
		if !small {
			text = p.label
		}
		text = strings.Repeat("#", p.ordinal) + text
		text += strings.Repeat(".", max(0, least-utf8.RuneCountInString(text)))
		text = string([]rune(text)[:min(size(s, "maxLength", math.MaxInt32), utf8.RuneCountInString(text))])
	}
	return text
}

// matching is a short text that a regular expression matches; what may be repeated is repeated so many times.
func matching(r *syntax.Regexp, times int) string {
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
		return matching(r.Sub[0], times)
	case syntax.OpPlus:
		return strings.Repeat(matching(r.Sub[0], 1), times)
	case syntax.OpStar:
		return strings.Repeat(matching(r.Sub[0], 1), times-1)
	case syntax.OpConcat:
		for _, part := range r.Sub {
			text += matching(part, times)
		}
	}
	return text
}

// number is the least number from 0 on that a schema takes, or the greatest below.
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
		n = low/2 + high/2 // between two whole numbers
	}
	return n
}

// resolved is a schema, or what it refers to, with what stands beside the reference.
func (p *sampler) resolved(schema any) any {
	s, _ := schema.(map[string]any)
	if to, ok := s["$ref"].(string); ok {
		return merged(without(s, "$ref"), p.target(to))
	}
	return schema
}

// target is what a reference inside the schema points to, or false, which no value is of.
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

// merged is a schema with the rules of two. Where both have one, that of the second counts, but for properties.
func merged(s map[string]any, other any) any {
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

func without(s map[string]any, rule string) map[string]any {
	out := maps.Clone(s)
	delete(out, rule)
	return out
}

// size is the whole number of a rule, or another one where there is none.
func size(s map[string]any, rule string, absent int) int {
	n, ok := s[rule].(float64)
	if !ok {
		return absent
	}
	return int(min(max(0, n), math.MaxInt32))
}

// typeOf is a schema's type: of several the first one that is not null.
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
