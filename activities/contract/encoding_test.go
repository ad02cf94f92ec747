package contract

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestEncode compares Encode with encoding/json of the current Go release.
func TestEncode(t *testing.T) {
	text := "<a & b>\u2028\u2029 \x00\x1f\x7f \"\\/ \U0001f600 e\u0301"
	for name, v := range map[string]any{
		"message": &Message{Role: RoleUser, Text: text, Parts: []Part{{Text: text}, {Ref: &ContentRef{SHA: "a"}}, {}},
			Calls: []ToolCall{{ID: "1", Arguments: `{"x": "<"}`}}, Provider: json.RawMessage("{ \"a\" : [ 1.50, 1e400, \"<\\/\" ] , \"a\": null }")},
		"model input": ModelInput{Profile: ProfileRef{Body: json.RawMessage(`{"system": "<b>"}`)},
			Tail: []TailEntry{{SHA: "a", Message: json.RawMessage(` {"role":"user"} `)}, {SHA: "b"}}},
		"numbers": map[string]any{"b": 1e21, "a": 1e-7, "c": float32(0.1), "": []any{nil, true}},
		"run":     RunInput{V: 1, Input: text, Params: json.RawMessage("[]")},
		"maps":    map[string]map[int]string{"b": {10: "x", 9: "y"}, "a": nil, "c": {}},
		"nothing": nil,
	} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Encode(v); err != nil || string(got) != string(want) {
			t.Errorf("%s: %s (%v), want %s", name, got, err, want)
		}
	}
	for _, bad := range []any{json.RawMessage("{"), func() {}} {
		if raw, err := Encode(bad); err == nil {
			t.Errorf("Encode(%v) succeeded: %s", bad, raw)
		}
	}
}

// FuzzDecode compares Decode with encoding/json of the current Go release.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"v": 1, "input": "a", "INPUT": "b", "input": "c"}`, `{"role": "user", "parts": [{"ref": null}, null], "provider": [1.50 , "\ud800"]}`,
		`{"v": "1"}`, `{"v": 1e0}`, `{"v": 9999999999999999999}`, `{"flow": {"plan": {"nodes": [{"id": 7}]}}}`, `null`, ` [] `, `{"input": "` + "\xff" + `"}`, `{} {}`, `{"text": "a`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, of := range []reflect.Type{reflect.TypeFor[RunInput](), reflect.TypeFor[Message](), reflect.TypeFor[ModelResult]()} {
			got, want := reflect.New(of), reflect.New(of)
			err, wanted := Decode(raw, got.Interface()), json.Unmarshal(raw, want.Interface())
			if (err == nil) != (wanted == nil) {
				t.Fatalf("%s: %v, want %v", of, err, wanted)
			}
			if err == nil && !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%s: %+v, want %+v", of, got.Elem(), want.Elem())
			}
		}
	})
}
