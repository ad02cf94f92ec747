package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/starter/plaintext"
)

// given is what a run is given: text, and JSON in the author's order.
type given struct {
	text   string
	params json.RawMessage
	// scope are values of placeholders.
	scope json.RawMessage
	// value is the typed input of a flow in which typed values flow.
	value json.RawMessage
	// images are shown with the text.
	images []contract.Image
	state  map[string]json.RawMessage
}

// readGiven reads all flags that say what a run is given. The dialect is "" where the flow
// does not compile: then nothing is said about what it takes.
func (a *app) readGiven(dialect string) (*given, error) {
	if err := a.oneReader(); err != nil {
		return nil, err
	}
	g := &given{}
	text, textErr := a.readInput()
	typed, typedErr := a.readJSON("-input-json", a.flags.inputJSON)
	params, paramsErr := a.readParams()
	stateErr := a.readState(g)
	scope, scopeErr := readPairs("-scope", a.flags.scope)
	images, imagesErr := a.readImages()
	if err := errors.Join(textErr, typedErr, paramsErr, stateErr, scopeErr, imagesErr); err != nil {
		return nil, err
	}
	if len(scope) > 0 {
		g.scope = objectOf(scope)
	}
	g.text, g.images = text, images
	if typed != nil && a.flags.has("input") {
		return nil, bad("-input and -input-json cannot be combined")
	}
	return g, a.take(g, dialect, typed, params)
}

// take makes of typed input what the dialect takes, beside single inputs.
func (a *app) take(g *given, dialect string, typed *source.Value, params []param) error {
	takes := specadapter.TraitsOf(dialect).Inputs
	parts := false
	if typed != nil {
		var err error
		if parts, err = g.readParts(typed); err != nil {
			return err
		}
		if parts && len(a.flags.images) > 0 {
			return bad("-input-json already has images; remove -image")
		}
	}
	switch {
	case typed == nil || parts:
	case takes && typed.Kind == source.Object:
		var err error
		if params, err = merged(params, typed.Members, "-input-json"); err != nil {
			return err
		}
	case specadapter.TraitsOf(dialect).Values:
		g.value = typed.JSON()
	default:
		g.text = textOf(typed)
	}
	if len(params) == 0 {
		return nil
	}
	if dialect != "" && !takes {
		return bad("%s: a flow of the dialect %s declares no inputs; use -input for text, -input-json for JSON, or -state for the shared state",
			params[0].from, dialect)
	}
	g.params = objectOf(params)
	return nil
}

// textOf is a value as the text that a flow without declared inputs gets: a string is that
// text, anything else its compact JSON.
func textOf(v *source.Value) string {
	if v.Kind == source.String {
		return v.Text
	}
	return string(v.JSON())
}

// oneReader refuses two flags that both want standard input.
func (a *app) oneReader() error {
	first := ""
	for _, f := range []struct{ name, value string }{
		{"-flow", a.flags.flow}, {"-input", a.flags.input}, {"-input-json", a.flags.inputJSON}, {"-params", a.flags.params},
		{"-state", a.flags.state}, {"-script", a.flags.script},
	} {
		switch {
		case f.value != "-":
		case first != "":
			return bad("%s and %s cannot both read standard input; use a file for one of them", first, f.name)
		default:
			first = f.name
		}
	}
	return nil
}

// readJSON reads a flag whose value is JSON, @FILE or -; nil where it is not given.
func (a *app) readJSON(flag, value string) (*source.Value, error) {
	if value == "" {
		return nil, nil
	}
	name, data := flag, []byte(value)
	if file, ok := strings.CutPrefix(value, "@"); ok || value == "-" {
		if ok && file == "" {
			return nil, bad("%s is @ without a file; use @FILE", flag)
		}
		if !ok {
			file = "-"
		}
		var err error
		if data, err = a.readFile(flag, file); err != nil {
			return nil, err
		}
		if name = file; file == "-" {
			name = "stdin"
		}
	}
	return parseJSON(flag, name, data)
}

// parseJSON reads one JSON value. Its error has the place of all that is wrong with it: the
// name, line and column.
func parseJSON(flag, name string, data []byte) (*source.Value, error) {
	if strings.TrimSpace(string(data)) == "" {
		return nil, bad("%s is empty; want JSON, for example {\"city\": \"Bern\"}", flag)
	}
	// The name chooses the parser, and a file may be called anything.
	doc, diags := source.Parse("value.json", data)
	if doc != nil {
		return doc.Root, nil
	}
	var lines []string
	for _, d := range diags {
		d.File = name
		if d.Code == source.CodeSyntax {
			d.Help = "write strings and keys in double quotes"
		}
		lines = append(lines, strings.ReplaceAll(d.String(), "\n\t", "; "))
	}
	return nil, bad("%s", strings.Join(lines, "\n"))
}

// param is one input of the flow.
type param struct {
	key string
	raw []byte
	// from says where it was given.
	from string
}

// readParams reads -params and then every -param, in order.
func (a *app) readParams() ([]param, error) {
	var out []param
	all, err := a.readJSON("-params", a.flags.params)
	switch {
	case err != nil:
		return nil, err
	case all == nil:
	case all.Kind != source.Object:
		return nil, bad("-params is %s, want an object with the flow's inputs", all.Describe())
	default:
		if out, err = merged(nil, all.Members, "-params"); err != nil {
			return nil, err
		}
	}
	more, err := readPairs("-param", a.flags.param)
	if err != nil {
		return nil, err
	}
	for _, p := range more {
		if out, err = added(out, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readPairs reads all values of a flag, each once.
func readPairs(flag string, texts []string) (out []param, err error) {
	for _, text := range texts {
		p, err := readPair(flag, text)
		if err != nil {
			return nil, err
		}
		if out, err = added(out, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readPair reads KEY=TEXT or KEY:=JSON.
func readPair(flag, text string) (param, error) {
	key, value, ok := strings.Cut(text, "=")
	key, typed := strings.CutSuffix(key, ":")
	p := param{key: key, from: fmt.Sprintf("%s %s", flag, plaintext.Line(key, 100))}
	switch {
	case !ok || key == "":
		return p, bad("%s is %s, want KEY=TEXT or KEY:=JSON", flag, source.Quote(text))
	case !utf8.ValidString(text):
		return p, bad("%s is not valid UTF-8; convert it", p.from)
	case !typed:
		p.raw = (&source.Value{Kind: source.String, Text: value}).JSON()
		return p, nil
	}
	v, err := parseJSON(p.from, p.from, []byte(value))
	if err != nil {
		return p, err
	}
	p.raw = v.JSON()
	return p, nil
}

// merged adds the members of an object.
func merged(params []param, members []source.Member, from string) (_ []param, err error) {
	for _, m := range members {
		if params, err = added(params, param{m.Key, m.Value.JSON(), from}); err != nil {
			return nil, err
		}
	}
	return params, nil
}

func added(params []param, p param) ([]param, error) {
	for _, other := range params {
		if other.key == p.key {
			return nil, bad("the input %s is set twice: by %s and by %s; remove one of them", source.Quote(p.key), other.from, p.from)
		}
	}
	return append(params, p), nil
}

// objectOf writes params as an object, in their order.
func objectOf(params []param) json.RawMessage {
	out := []byte{'{'}
	for i, p := range params {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, (&source.Value{Kind: source.String, Text: p.key}).JSON()...)
		out = append(append(out, ':'), p.raw...)
	}
	return append(out, '}')
}

// readState reads -state: the keys that the nodes' state has from the start.
func (a *app) readState(g *given) error {
	v, err := a.readJSON("-state", a.flags.state)
	switch {
	case err != nil || v == nil:
		return err
	case v.Kind != source.Object:
		return bad("-state is %s, want an object with keys and values", v.Describe())
	}
	g.state = map[string]json.RawMessage{}
	for _, m := range v.Members {
		g.state[m.Key] = m.Value.JSON()
	}
	return nil
}
