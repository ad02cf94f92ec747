package model

import (
	"testing"

	"weft/specadapter/source"
)

// parseShape reads a schema in JSON5.
func parseShape(t *testing.T, l *loader, text string) *Shape {
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
		text, integer, number, flag, null = "{type: 'string'}", "{type: 'integer'}", "{type: 'number'}", "{type: 'boolean'}", "{type: 'null'}"
		anything                          = "{}"
		texts                             = "{type: 'array', items: {type: 'string'}}"
		integers                          = "{type: 'array', items: {type: 'integer'}}"
		lists                             = "{type: 'array'}"
		nullable                          = "{type: ['integer', 'null']}"
		mixed                             = "{anyOf: [{type: 'integer'}, {type: 'string'}]}"
		point                             = "{type: 'object', properties: {x: {type: 'number'}, y: {type: 'number'}}}"
		line                              = "{type: 'object', properties: {x: {type: 'integer'}}}"
		closed                            = "{type: 'object', properties: {x: {type: 'integer'}}, additionalProperties: false}"
		dict                              = "{type: 'object', additionalProperties: {type: 'string'}}"
		counts                            = "{type: 'object', additionalProperties: {type: 'integer'}}"
	)
	tests := []struct {
		from, to string
		want     bool
	}{
		{text, text, true}, {integer, text, true}, {null, text, true}, {point, text, true}, {anything, text, true}, {texts, text, true},
		{text, integer, false}, {text, flag, false}, {null, integer, false}, {anything, integer, false}, {texts, integer, false},
		{integer, number, true}, {number, integer, true}, {flag, integer, true}, {number, flag, true},
		{text, anything, true}, {point, anything, true}, {anything, anything, true},
		{integers, texts, true}, {texts, integers, false}, {lists, texts, true}, {lists, integers, false}, {integers, lists, true}, {integer, integers, false},
		{integer, nullable, true}, {null, nullable, true}, {text, nullable, false}, {nullable, integer, false}, {nullable, nullable, true}, {nullable, mixed, true},
		{mixed, nullable, false}, {mixed, text, true}, {flag, mixed, true}, {integers, mixed, true},
		{point, line, true}, {line, point, false}, {point, closed, false}, {closed, line, true}, {closed, dict, true}, {dict, counts, false},
		{counts, dict, true}, {point, dict, true}, {dict, point, false}, {text, dict, false},
	}
	for _, tc := range tests {
		l := newLoader("s.json5", Options{})
		if got := l.castable(source.Pos{}, parseShape(t, l, tc.from), parseShape(t, l, tc.to)); got != tc.want {
			t.Errorf("%s to %s: %v, want %v", tc.from, tc.to, got, tc.want)
		}
		if !l.same(source.Pos{}, parseShape(t, l, tc.from), parseShape(t, l, tc.from)) {
			t.Errorf("%s is not the same as itself", tc.from)
		}
		if same := l.same(source.Pos{}, parseShape(t, l, tc.from), parseShape(t, l, tc.to)); same != (tc.from == tc.to) {
			t.Errorf("same(%s, %s) = %v", tc.from, tc.to, same)
		}
	}
}

// TestSameUnion checks that equivalent unions are the same regardless of order.
func TestSameUnion(t *testing.T) {
	l := newLoader("s.json5", Options{})
	a := parseShape(t, l, "{anyOf: [{type: 'string'}, {type: ['integer', 'null']}]}")
	b := parseShape(t, l, "{type: ['null', 'integer', 'string', 'string']}")
	if !l.same(source.Pos{}, a, b) || a.String() != "string or integer or null" {
		t.Errorf("%s and %s are not the same", a, b)
	}
}
