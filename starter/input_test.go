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

// inputsDialect is a dialect whose flows declare inputs.
type inputsDialect struct{ specadapter.Adapter }

func (inputsDialect) Name() string               { return "declaring" }
func (inputsDialect) Traits() specadapter.Traits { return specadapter.Traits{Inputs: true} }

func (inputsDialect) Detect(*source.Document) (bool, string) { return false, "nothing" }

func (inputsDialect) Adapt(*source.Document, string, source.Host) (*plan.Flow, plan.Source, []source.Diagnostic) {
	return nil, plan.Source{}, nil
}

func TestInputFlags(t *testing.T) {
	before := specadapter.Dialects
	specadapter.Dialects = append(before[:len(before):len(before)], inputsDialect{})
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
		// text, params, value and state are the input of the run; err is the start of the error.
		text, params, value, state, err string
	}{
		"text":                                          {args: "-input hello", text: "hello"},
		"JSON string as text":                           {args: `-input-json "a\n"`, text: "a\n"},
		"other JSON as compact text":                    {args: "-input-json @" + file, text: `{"z":1.0,"a":"ü"}`},
		"JSON array as text":                            {args: `-input-json [1,{"b":2,"a":null}]`, text: `[1,{"b":2,"a":null}]`},
		"JSON object for declared inputs":               {dialect: "declaring", args: "-input-json @" + file, params: `{"z":1.0,"a":"ü"}`},
		"text and declared inputs":                      {dialect: "declaring", args: "-input hi -param a=1 -param b:=1 -param c:={\"y\":1,\"x\":2}", text: "hi", params: `{"a":"1","b":1,"c":{"y":1,"x":2}}`},
		"typed value":                                   {dialect: "koog", args: `-input-json 42.0`, value: "42.0"},
		"typed value, a string":                         {dialect: "koog", args: `-input-json "42"`, value: `"42"`},
		"text for a dialect with typed values":          {dialect: "koog", args: `-input 42`, text: "42"},
		"-params from a file and -param":                {dialect: "declaring", args: "-param b==x -params @" + file, params: `{"z":1.0,"a":"ü","b":"=x"}`},
		"-param and a JSON object":                      {dialect: "declaring", args: `-param b=1 -input-json {"a":2}`, params: `{"b":"1","a":2}`},
		"JSON string for declared inputs":               {dialect: "declaring", args: `-input-json "hi"`, text: "hi"},
		"text and images":                               {args: "-input look -image " + picture + " -image " + picture, text: "look", images: 2},
		"declared inputs and an image":                  {dialect: "declaring", args: "-param a=1 -image " + picture, params: `{"a":"1"}`, images: 1},
		"content parts":                                 {args: `-input-json [{"text":"look:"},` + gif + `,{"text":"and"}]`, text: "look:[image 1, image/gif, 6 bytes]and", images: 1},
		"content parts for a dialect with typed values": {dialect: "koog", args: `-input-json [` + gif + `]`, text: "[image 1, image/gif, 6 bytes]", images: 1},
		"texts only are not content parts":              {args: `-input-json [{"text":"a"}]`, text: `[{"text":"a"}]`},
		"images in two places":                          {args: `-input-json [` + gif + `] -image ` + picture, err: "-input-json already has images, documents or audio; remove -image"},
		"wrong media type":                              {args: `-input-json [{"image":{"media_type":"image/png","data":"R0lGODlh"}}]`, err: `-input-json: images[0].media_type is "image/png", but data is image/gif`},
		"invalid base64":                                {args: `-input-json [{"image":{"media_type":"image/png","data":"?"}}]`, err: `-input-json: images[0].data is not base64`},
		"image by URL":                                  {args: `-input-json [{"image":{"url":"https://x.test/a.png"}}]`, err: `-input-json: invalid content part: json: unknown field "url"`},
		"unsupported file type":                         {args: "-image " + file, err: "-image " + file + ": unsupported file type; convert it to PNG, JPEG, GIF, WebP, PDF"},
		"state":                                         {args: `-state {"k":[1]}`, state: "[1]"},
		"-param for a dialect without inputs":           {dialect: "continuum", args: "-param a=1", err: "-param a: a flow of the dialect continuum declares no inputs; use -input for text"},
		"-params for a dialect without inputs":          {dialect: "continuum", args: `-params {"a":1}`, err: "-params: a flow of the dialect continuum declares no inputs"},
		"text and JSON":                                 {args: "-input a -input-json 1", err: "-input and -input-json cannot be combined"},
		"duplicate input":                               {dialect: "declaring", args: "-param a=1 -param a:=2", err: `the input "a" is set twice: by -param a and by -param a`},
		"duplicate input, in two flags":                 {dialect: "declaring", args: `-param a=1 -input-json {"a":2}`, err: `the input "a" is set twice: by -param a and by -input-json`},
		"duplicate key":                                 {args: `-input-json {"a":1,"a":2}`, err: `-input-json:1:8: error: duplicate key "a", first used at line 1`},
		"invalid JSON":                                  {args: `-input-json {"a":1,}`, err: `-input-json:1:8: error: `},
		"invalid JSON of one input":                     {dialect: "declaring", args: `-param a:=[1,`, err: `-param a:1:4: error: `},
		"YAML instead of JSON":                          {args: `-input-json a:`, err: `-input-json:1:1: error: `},
		"input without a name":                          {dialect: "declaring", args: "-param =1", err: `-param is "=1", expected KEY=TEXT or KEY:=JSON`},
		"input without a value":                         {dialect: "declaring", args: "-param a", err: `-param is "a", expected KEY=TEXT`},
		"invalid UTF-8":                                 {dialect: "declaring", args: "-param a=\xff", err: `-param a is not valid UTF-8`},
		"array as params":                               {args: "-params [1]", err: "-params is an array, expected an object"},
		"string as state":                               {args: `-state "x"`, err: `-state is "x", expected an object`},
		"standard input twice":                          {args: "-input-json - -state -", err: "-input-json and -state cannot both read standard input"},
		"missing file name":                             {args: "-params @", err: "-params is @ without a file"},
		"missing file":                                  {args: "-state @" + file + "x", err: "read -state: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := &app{stdin: strings.NewReader("")}
			if _, _, err := parse(a, strings.Split(tc.args, " ")...); err != nil {
				t.Fatal(err)
			}
			in, err := a.reader().Values(&a.flags.Flags, a.flags.has("input"), tc.dialect)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Fatalf("error = %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(in.Media) != tc.images {
				t.Errorf("%d images, want %d", len(in.Media), tc.images)
			}
			if string(in.Value) != tc.value {
				t.Errorf("value = %s, want %s", in.Value, tc.value)
			}
			if in.Text != tc.text || string(in.Params) != tc.params || string(in.State["k"]) != tc.state {
				t.Errorf("got text %q, params %s, state %s; want %q, %s, %s", in.Text, in.Params, in.State["k"], tc.text, tc.params, tc.state)
			}
		})
	}
}
