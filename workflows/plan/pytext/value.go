// Package pytext formats JSON values as Python does: json.dumps, str and repr.
//
// Models and authors expect these texts from frameworks written in Python, so they are reproduced byte for byte. The
// package imports only the standard library and depends on neither the clock nor map order, so that workflow code may use
// it.
//
// Start at [Parse].
package pytext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Kind is the JSON type of a value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// Value is a JSON value that preserves the order of its members and the notation of its numbers.
type Value struct {
	Kind Kind
	// True is the value of a Bool.
	True bool
	// Text is the value of a String, or the literal of a Number.
	Text string
	// Items are the elements of an Array.
	Items []*Value
	// Members are the members of an Object.
	Members []Member
}

// Member is one member of an object.
type Member struct {
	Key   string
	Value *Value
}

// MaxDepth limits the nesting of a value.
const MaxDepth = 1000

// Parse parses one JSON value. Of duplicate keys the last value is used, at the position of the first, as in Python.
func Parse(raw []byte) (*Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := parse(d, 1)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("unexpected data after the JSON value")
	}
	return v, nil
}

func parse(d *json.Decoder, depth int) (*Value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case bool:
		return &Value{Kind: Bool, True: t}, nil
	case json.Number:
		return &Value{Kind: Number, Text: t.String()}, nil
	case string:
		return &Value{Kind: String, Text: t}, nil
	case json.Delim:
		if depth > MaxDepth {
			return nil, fmt.Errorf("value is nested deeper than %d levels", MaxDepth)
		}
		if t == '[' {
			return array(d, depth)
		}
		return object(d, depth)
	}
	return &Value{}, nil
}

func array(d *json.Decoder, depth int) (*Value, error) {
	v := &Value{Kind: Array}
	for d.More() {
		item, err := parse(d, depth+1)
		if err != nil {
			return nil, err
		}
		v.Items = append(v.Items, item)
	}
	_, err := d.Token()
	return v, err
}

func object(d *json.Decoder, depth int) (*Value, error) {
	v := &Value{Kind: Object}
	seen := map[string]int{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		item, err := parse(d, depth+1)
		if err != nil {
			return nil, err
		}
		if i, ok := seen[key]; ok {
			v.Members[i].Value = item
			continue
		}
		seen[key] = len(v.Members)
		v.Members = append(v.Members, Member{key, item})
	}
	_, err := d.Token()
	return v, err
}

// Get returns the value of a member, or nil. It takes time linear in the number of members.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Key == key {
			return v.Members[i].Value
		}
	}
	return nil
}

// Truthy returns Python's bool(v).
func (v *Value) Truthy() bool {
	if v == nil {
		return false
	}
	switch v.Kind {
	case Bool:
		return v.True
	case Number:
		f, err := number(v.Text).Float64()
		return err != nil || f != 0
	case String:
		return v.Text != ""
	case Array:
		return len(v.Items) > 0
	case Object:
		return len(v.Members) > 0
	}
	return false
}
