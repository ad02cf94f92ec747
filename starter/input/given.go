package input

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/inputs"
	"weft/specadapter/source"
	"weft/starter/plaintext"
	"weft/starter/usage"
	"weft/workflows/plan"
)

// Flags are the values of the flags for the input of a run.
type Flags struct {
	Flow, Input, InputJSON, Params, State, Script string
	Param, Scope, Images, Documents, Audio        []string
	Components, Component                         []string
}

// Values are the input of a run. JSON objects keep the order of their members.
type Values struct {
	Text   string
	Params json.RawMessage
	// Scope holds the values of placeholders.
	Scope json.RawMessage
	// Value is the typed input of a flow with typed values.
	Value json.RawMessage
	// Media are the files that are sent to models with the text.
	Media []contract.Media
	State map[string]json.RawMessage
}

// Values reads all flags for the input of a run. The dialect is "" if the flow does not compile:
// then errors do not depend on what it accepts. hasInput reports whether -input is set.
func (r *Reader) Values(f *Flags, hasInput bool, dialect string) (*Values, error) {
	if err := f.checkStdin(); err != nil {
		return nil, err
	}
	g := &Values{}
	var textErr, mediaErr, stateErr error
	g.Text, textErr = r.Text("-input", f.Input)
	typed, typedErr := r.JSON("-input-json", f.InputJSON)
	params, paramsErr := r.params(f)
	g.State, stateErr = r.state(f)
	scope, scopeErr := Pairs("-scope", f.Scope)
	g.Media, mediaErr = r.Media(f)
	if err := errors.Join(textErr, typedErr, paramsErr, stateErr, scopeErr, mediaErr); err != nil {
		return nil, err
	}
	if len(scope) > 0 {
		g.Scope = object(scope)
	}
	if typed != nil && hasInput {
		return nil, usage.Errorf("-input and -input-json cannot be combined")
	}
	return g, g.add(dialect, typed, params)
}

func (g *Values) add(dialect string, typed *source.Value, params []Param) error {
	accepts := specadapter.TraitsOf(dialect).Inputs
	if typed != nil {
		parts, err := g.contentParts(typed)
		switch {
		case err != nil:
			return err
		case parts:
		case accepts && typed.Kind == source.Object:
			if params, err = addMembers(params, typed.Members, "-input-json"); err != nil {
				return err
			}
		case specadapter.TraitsOf(dialect).Values:
			g.Value = typed.JSON()
		case typed.Kind == source.String:
			g.Text = typed.Text
		default:
			g.Text = string(typed.JSON())
		}
	}
	if len(params) == 0 {
		return nil
	}
	if dialect != "" && !accepts {
		return usage.Errorf("%s: a flow of the dialect %s declares no inputs; use -input for text, -input-json for JSON, or -state for the shared state",
			params[0].From, dialect)
	}
	g.Params = object(params)
	return nil
}

// checkStdin returns an error if more than one flag reads standard input.
func (f *Flags) checkStdin() error {
	first := ""
	for _, x := range []struct{ name, value string }{
		{"-flow", f.Flow}, {"-input", f.Input}, {"-input-json", f.InputJSON}, {"-params", f.Params}, {"-state", f.State}, {"-script", f.Script},
	} {
		switch {
		case x.value != "-":
		case first != "":
			return usage.Errorf("%s and %s cannot both read standard input; use a file for one of them", first, x.name)
		default:
			first = x.name
		}
	}
	return nil
}

func isFile(part map[string]json.RawMessage) bool {
	return part[contract.KindImage] != nil || part[contract.KindDocument] != nil || part[contract.KindAudio] != nil
}

// contentParts reads an array of text and file parts, and reports whether the JSON is one.
func (g *Values) contentParts(v *source.Value) (bool, error) {
	var raw []map[string]json.RawMessage
	if v.Kind != source.Array || json.Unmarshal(v.JSON(), &raw) != nil {
		return false, nil
	}
	other := func(part map[string]json.RawMessage) bool {
		return len(part) != 1 || part["text"] == nil && !isFile(part)
	}
	if slices.ContainsFunc(raw, other) || !slices.ContainsFunc(raw, isFile) {
		return false, nil
	}
	var parts []struct {
		Text     *string         `json:"text"`
		Image    *contract.Media `json:"image"`
		Document *contract.Media `json:"document"`
		Audio    *contract.Media `json:"audio"`
	}
	d := json.NewDecoder(bytes.NewReader(v.JSON()))
	d.DisallowUnknownFields()
	if err := d.Decode(&parts); err != nil {
		return true, usage.Errorf("-input-json: invalid content part: %v; expected {\"text\": TEXT} or {\"image\": {\"media_type\": \"image/png\", \"data\": BASE64}}", err)
	}
	if len(g.Media) > 0 {
		return true, usage.Errorf("-input-json already has images, documents or audio; remove -%s", g.Media[0].Kind())
	}
	var text strings.Builder
	for _, p := range parts {
		if p.Text != nil {
			text.WriteString(*p.Text)
		}
		for kind, file := range map[string]*contract.Media{contract.KindImage: p.Image, contract.KindDocument: p.Document, contract.KindAudio: p.Audio} {
			if file == nil {
				continue
			}
			if file.Kind() != kind {
				return true, usage.Errorf("-input-json: %q has the media_type %.100q; write {%q: …}", kind, file.MediaType, file.Kind())
			}
			g.Media = append(g.Media, *file)
			text.WriteString(file.Note(len(g.Media)))
		}
	}
	g.Text = text.String()
	if err := contract.CheckMedia(g.Media); err != nil {
		return true, usage.Errorf("-input-json: %v", err)
	}
	return true, nil
}

func (r *Reader) state(f *Flags) (map[string]json.RawMessage, error) {
	v, err := r.JSON("-state", f.State)
	switch {
	case err != nil || v == nil:
		return nil, err
	case v.Kind != source.Object:
		return nil, usage.Errorf("-state is %s, expected an object with keys and values", v.Describe())
	}
	out := map[string]json.RawMessage{}
	for _, m := range v.Members {
		out[m.Key] = m.Value.JSON()
	}
	return out, nil
}

// Check validates the values against the inputs of the flow, as the run does.
func (g *Values) Check(ctx context.Context, f *plan.Flow) error {
	if f.Inputs == nil && len(g.Scope) > 0 {
		return usage.Errorf("-scope: flows of the dialect %s have no placeholders", f.Dialect)
	}
	if f.Inputs == nil {
		return nil
	}
	var v inputs.Values
	err := v.Read(f.Inputs, g.Params, g.Scope, g.Text)
	if err == nil {
		_, _, err = inputs.Start(ctx, f, v)
	}
	return err
}

// Params reads the flags that set parameters by name. It returns nil if none is set.
func (r *Reader) Params(f *Flags) (json.RawMessage, error) {
	params, err := r.params(f)
	if err != nil || len(params) == 0 {
		return nil, err
	}
	return object(params), nil
}

// Param is a named value.
type Param struct {
	Key string
	Raw json.RawMessage
	// From is the flag that set it, for errors.
	From string
}

func (r *Reader) params(f *Flags) ([]Param, error) {
	var out []Param
	all, err := r.JSON("-params", f.Params)
	switch {
	case err != nil:
		return nil, err
	case all == nil:
	case all.Kind != source.Object:
		return nil, usage.Errorf("-params is %s, expected an object with the flow's inputs", all.Describe())
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
		return p, usage.Errorf("%s is %s, expected KEY=TEXT or KEY:=JSON", flag, source.Quote(text))
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
