package model

import (
	"testing"

	"weft/specadapter/source"
)

// shapeOf reads a schema in JSON5.
func shapeOf(t *testing.T, l *loader, text string) *Shape {
	t.Helper()
	doc, diags := source.Parse("s.json5", []byte(text))
	if doc == nil {
		t.Fatal(diags)
	}
	shape, ok := l.schema(doc.Root, "a test")
	if !ok {
		t.Fatalf("%s: %v", text, l.Diags)
	}
	return shape
}

func TestCastable(t *testing.T) {
	const (
		text, whole, number, flag, null = "{type: 'string'}", "{type: 'integer'}", "{type: 'number'}", "{type: 'boolean'}", "{type: 'null'}"
		anything                        = "{}"
		texts                           = "{type: 'array', items: {type: 'string'}}"
		wholes                          = "{type: 'array', items: {type: 'integer'}}"
		lists                           = "{type: 'array'}"
		maybe                           = "{type: ['integer', 'null']}"
		mixed                           = "{anyOf: [{type: 'integer'}, {type: 'string'}]}"
		point                           = "{type: 'object', properties: {x: {type: 'number'}, y: {type: 'number'}}}"
		line                            = "{type: 'object', properties: {x: {type: 'integer'}}}"
		closed                          = "{type: 'object', properties: {x: {type: 'integer'}}, additionalProperties: false}"
		dict                            = "{type: 'object', additionalProperties: {type: 'string'}}"
		counts                          = "{type: 'object', additionalProperties: {type: 'integer'}}"
	)
	tests := []struct {
		from, to string
		want     bool
	}{
		{text, text, true}, {whole, text, true}, {null, text, true}, {point, text, true}, {anything, text, true}, {texts, text, true},
		{text, whole, false}, {text, flag, false}, {null, whole, false}, {anything, whole, false}, {texts, whole, false},
		{whole, number, true}, {number, whole, true}, {flag, whole, true}, {number, flag, true},
		{text, anything, true}, {point, anything, true}, {anything, anything, true},
		{wholes, texts, true}, {texts, wholes, false}, {lists, texts, true}, {lists, wholes, false}, {wholes, lists, true}, {whole, wholes, false},
		{whole, maybe, true}, {null, maybe, true}, {text, maybe, false}, {maybe, whole, false}, {maybe, maybe, true}, {maybe, mixed, true},
		{mixed, maybe, false}, {mixed, text, true}, {flag, mixed, true}, {wholes, mixed, true},
		{point, line, true}, {line, point, false}, {point, closed, false}, {closed, line, true}, {closed, dict, true}, {dict, counts, false},
		{counts, dict, true}, {point, dict, true}, {dict, point, false}, {text, dict, false},
	}
	for _, tc := range tests {
		l := newLoader("s.json5", Options{})
		if got := l.castable(source.Pos{}, shapeOf(t, l, tc.from), shapeOf(t, l, tc.to)); got != tc.want {
			t.Errorf("%s to %s: %v, want %v", tc.from, tc.to, got, tc.want)
		}
		if !l.same(source.Pos{}, shapeOf(t, l, tc.from), shapeOf(t, l, tc.from)) {
			t.Errorf("%s is not the same as itself", tc.from)
		}
		if same := l.same(source.Pos{}, shapeOf(t, l, tc.from), shapeOf(t, l, tc.to)); same != (tc.from == tc.to) {
			t.Errorf("%s the same as %s: %v", tc.from, tc.to, same)
		}
	}
}

// Unions that mean the same are the same in any order.
func TestSameUnion(t *testing.T) {
	l := newLoader("s.json5", Options{})
	a := shapeOf(t, l, "{anyOf: [{type: 'string'}, {type: ['integer', 'null']}]}")
	b := shapeOf(t, l, "{type: ['null', 'integer', 'string', 'string']}")
	if !l.same(source.Pos{}, a, b) || a.String() != "string or integer or null" {
		t.Errorf("%s is not %s", a, b)
	}
}
