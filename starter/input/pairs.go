package input

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"weft/specadapter/source"
	"weft/starter/plaintext"
	"weft/starter/usage"
)

// Param is a value with a name.
type Param struct {
	Key string
	Raw json.RawMessage
	// From says where it was given.
	From string
}

// params reads -params and then every -param, in order.
func (r *Reader) params(f *Flags) ([]Param, error) {
	var out []Param
	all, err := r.JSON("-params", f.Params)
	switch {
	case err != nil:
		return nil, err
	case all == nil:
	case all.Kind != source.Object:
		return nil, usage.Errorf("-params is %s, want an object with the flow's inputs", all.Describe())
	default:
		if out, err = addMembers(nil, all.Members, "-params"); err != nil {
			return nil, err
		}
	}
	more, err := Pairs("-param", f.Param)
	for _, p := range more {
		if out, err = add(out, p); err != nil {
			return nil, err
		}
	}
	return out, err
}

// Pairs reads all values of a flag, KEY=TEXT or KEY:=JSON. Each key is unique.
func Pairs(flag string, texts []string) (out []Param, err error) {
	for _, text := range texts {
		p, err := pair(flag, text)
		if err == nil {
			out, err = add(out, p)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func pair(flag, text string) (Param, error) {
	key, value, ok := strings.Cut(text, "=")
	key, typed := strings.CutSuffix(key, ":")
	p := Param{Key: key, From: fmt.Sprintf("%s %s", flag, plaintext.Line(key, 100))}
	switch {
	case !ok || key == "":
		return p, usage.Errorf("%s is %s, want KEY=TEXT or KEY:=JSON", flag, source.Quote(text))
	case !utf8.ValidString(text):
		return p, usage.Errorf("%s is not valid UTF-8; convert it", p.From)
	case !typed:
		p.Raw = (&source.Value{Kind: source.String, Text: value}).JSON()
		return p, nil
	}
	v, err := parseJSON(p.From, p.From, []byte(value))
	if err == nil {
		p.Raw = v.JSON()
	}
	return p, err
}

func addMembers(params []Param, members []source.Member, from string) (_ []Param, err error) {
	for _, m := range members {
		if params, err = add(params, Param{m.Key, m.Value.JSON(), from}); err != nil {
			return nil, err
		}
	}
	return params, nil
}

func add(params []Param, p Param) ([]Param, error) {
	for _, other := range params {
		if other.Key == p.Key {
			return nil, usage.Errorf("the input %s is set twice: by %s and by %s; remove one of them", source.Quote(p.Key), other.From, p.From)
		}
	}
	return append(params, p), nil
}

func object(params []Param) json.RawMessage {
	out := []byte{'{'}
	for i, p := range params {
		if i > 0 {
			out = append(out, ',')
		}
		key := &source.Value{Kind: source.String, Text: p.Key}
		out = append(append(append(out, key.JSON()...), ':'), p.Raw...)
	}
	return append(out, '}')
}
