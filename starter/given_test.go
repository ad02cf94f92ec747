package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/specadapter"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// declaring is a dialect whose flows declare inputs.
type declaring struct{ specadapter.Adapter }

func (declaring) Name() string               { return "declaring" }
func (declaring) Traits() specadapter.Traits { return specadapter.Traits{Inputs: true} }

func (declaring) Detect(*source.Document) (bool, string) { return false, "nothing" }

func (declaring) Adapt(*source.Document, string, source.Host) (*plan.Flow, plan.Source, []source.Diagnostic) {
	return nil, plan.Source{}, nil
}

func TestWhatARunIsGiven(t *testing.T) {
	before := specadapter.Dialects
	specadapter.Dialects = append(before[:len(before):len(before)], declaring{})
	t.Cleanup(func() { specadapter.Dialects = before })
	file := filepath.Join(t.TempDir(), "in.yaml")
	if err := os.WriteFile(file, []byte("{\n \"z\": 1.0,\n \"a\": \"ü\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	picture := filepath.Join(filepath.Dir(file), "a.gif")
	if err := os.WriteFile(picture, []byte("GIF89a"), 0o600); err != nil {
		t.Fatal(err)
	}
	const gif = `{"image":{"media_type":"image/gif","data":"R0lGODlh"}}`
	tests := map[string]struct {
		dialect, args string
		images        int
		// text, params and state are what the run gets; err is in the error.
		text, params, value, state, err string
	}{
		"text":                             {args: "-input hello", text: "hello"},
		"a JSON string is the text itself": {args: `-input-json "a\n"`, text: "a\n"},
		"other JSON is its compact text":   {args: "-input-json @" + file, text: `{"z":1.0,"a":"ü"}`},
		"a list":                           {args: `-input-json [1,{"b":2,"a":null}]`, text: `[1,{"b":2,"a":null}]`},
		"an object for declared inputs":    {dialect: "declaring", args: "-input-json @" + file, params: `{"z":1.0,"a":"ü"}`},
		"text and declared inputs":         {dialect: "declaring", args: "-input hi -param a=1 -param b:=1 -param c:={\"y\":1,\"x\":2}", text: "hi", params: `{"a":"1","b":1,"c":{"y":1,"x":2}}`},
		"a typed value":                    {dialect: "koog", args: `-input-json 42.0`, value: "42.0"},
		"a typed value that is a string":   {dialect: "koog", args: `-input-json "42"`, value: `"42"`},
		"text where typed values flow":     {dialect: "koog", args: `-input 42`, text: "42"},
		"a file, then single inputs":       {dialect: "declaring", args: "-param b==x -params @" + file, params: `{"z":1.0,"a":"ü","b":"=x"}`},
		"both ways to give an object":      {dialect: "declaring", args: `-param b=1 -input-json {"a":2}`, params: `{"b":"1","a":2}`},
		"a string for declared inputs":     {dialect: "declaring", args: `-input-json "hi"`, text: "hi"},
		"an image beside a text":           {args: "-input look -image " + picture + " -image " + picture, text: "look", images: 2},
		"an image beside declared inputs":  {dialect: "declaring", args: "-param a=1 -image " + picture, params: `{"a":"1"}`, images: 1},
		"content parts":                    {args: `-input-json [{"text":"look:"},` + gif + `,{"text":"and"}]`, text: "look:[image 1, image/gif, 6 bytes]and", images: 1},
		"content parts where values flow":  {dialect: "koog", args: `-input-json [` + gif + `]`, text: "[image 1, image/gif, 6 bytes]", images: 1},
		"texts alone are no content parts": {args: `-input-json [{"text":"a"}]`, text: `[{"text":"a"}]`},
		"images in two places":             {args: `-input-json [` + gif + `] -image ` + picture, err: "-input-json already has images, documents or audio; remove -image"},
		"an image of another type":         {args: `-input-json [{"image":{"media_type":"image/png","data":"R0lGODlh"}}]`, err: `-input-json: images[0].media_type is "image/png", but data is image/gif`},
		"an image that is no base64":       {args: `-input-json [{"image":{"media_type":"image/png","data":"?"}}]`, err: `-input-json: images[0].data is not base64`},
		"an image by its address":          {args: `-input-json [{"image":{"url":"https://x.test/a.png"}}]`, err: `-input-json: invalid content part: json: unknown field "url"`},
		"a file that is no image":          {args: "-image " + file, err: "-image " + file + ": unsupported file type; convert it to PNG, JPEG, GIF, WebP, PDF"},
		"values for the state":             {args: `-state {"k":[1]}`, state: "[1]"},
		"inputs that no flow declares":     {dialect: "continuum", args: "-param a=1", err: "-param a: a flow of the dialect continuum declares no inputs; use -input for text"},
		"the same, all at once":            {dialect: "continuum", args: `-params {"a":1}`, err: "-params: a flow of the dialect continuum declares no inputs"},
		"text and JSON":                    {args: "-input a -input-json 1", err: "-input and -input-json cannot be combined"},
		"an input twice":                   {dialect: "declaring", args: "-param a=1 -param a:=2", err: `the input "a" is set twice: by -param a and by -param a`},
		"an input here and there":          {dialect: "declaring", args: `-param a=1 -input-json {"a":2}`, err: `the input "a" is set twice: by -param a and by -input-json`},
		"a key twice":                      {args: `-input-json {"a":1,"a":2}`, err: `-input-json:1:8: error: duplicate key "a", first used at line 1`},
		"wrong JSON":                       {args: `-input-json {"a":1,}`, err: `-input-json:1:8: error: `},
		"wrong JSON of one input":          {dialect: "declaring", args: `-param a:=[1,`, err: `-param a:1:4: error: `},
		"YAML is no JSON":                  {args: `-input-json a:`, err: `-input-json:1:1: error: `},
		"an input without a name":          {dialect: "declaring", args: "-param =1", err: `-param is "=1", expected KEY=TEXT or KEY:=JSON`},
		"an input without a value":         {dialect: "declaring", args: "-param a", err: `-param is "a", expected KEY=TEXT`},
		"an input that is no text":         {dialect: "declaring", args: "-param a=\xff", err: `-param a is not valid UTF-8`},
		"params that are a list":           {args: "-params [1]", err: "-params is an array, expected an object"},
		"a state that is a text":           {args: `-state "x"`, err: `-state is "x", expected an object`},
		"standard input twice":             {args: "-input-json - -state -", err: "-input-json and -state cannot both read standard input"},
		"a file without a name":            {args: "-params @", err: "-params is @ without a file"},
		"a file that is not there":         {args: "-state @" + file + "x", err: "read -state: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := &app{stdin: strings.NewReader("")}
			if _, _, err := parse(a, strings.Split(tc.args, " ")...); err != nil {
				t.Fatal(err)
			}
			g, err := a.reader().Values(&a.flags.Flags, a.flags.has("input"), tc.dialect)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Fatalf("error is %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(g.Media) != tc.images {
				t.Errorf("%d images, want %d", len(g.Media), tc.images)
			}
			if string(g.Value) != tc.value {
				t.Errorf("value is %s, want %s", g.Value, tc.value)
			}
			if g.Text != tc.text || string(g.Params) != tc.params || string(g.State["k"]) != tc.state {
				t.Errorf("got text %q, params %s, state %s; want %q, %s, %s", g.Text, g.Params, g.State["k"], tc.text, tc.params, tc.state)
			}
		})
	}
}
