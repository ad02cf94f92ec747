package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestDuplicateNames checks that duplicate names are rejected in objects at any depth.
func TestDuplicateNames(t *testing.T) {
	type fields struct {
		A, B    json.RawMessage
		Approve bool
		Reason  string
		Text    string
	}
	for raw, want := range map[string]string{
		`{}`:                                               "",
		`{"a":1,"b":2}`:                                    "",
		`{"a":1,"a":2}`:                                    `"a" appears twice, again at byte 8: "a":2}; remove one of them`,
		` { "a" : 1 , "b" : "a" , "a" : 2 }`:               `"a" appears twice, again at byte 26`,
		`{"approve":false,"\u0061pprove":true}`:            `"approve" appears twice, again at byte 18`,
		`{"approve":false,"Approve":true}`:                 `"Approve" appears twice, again at byte 18`,
		`{"reason":"x","reaſon":"y"}`:                      `"reaſon" appears twice, again at byte 15`,
		`{"a":{"to":1,"To":2,"n":["to","to"]}}`:            "",
		`{"a":{"to":1,"n":[{"x":1},{"x":1,"y":0,"x":2}]}}`: `"a.n[1].x" appears twice, again at byte 40`,
		`{"a":{"a":{"a":1}},"b":["a","a",{"a":1}]}`:        "",
		`{"a":[[],[0,{"a":1,"a":1}]]}`:                     `"a[1][1].a" appears twice, again at byte 20`,
		`{"a":"{\"b\":1,\"b\":2}","b":"\\","text":"\""}`:   "",
		`{"a":"\\","a":1}`:                                 `"a" appears twice, again at byte 11`,
		"{\"a\":{\"\xff\":1,\"\xfe\":2}}":                  `"a.` + "\ufffd" + `" appears twice, again at byte 13`,
		`{"a":{"":1,"":2}}`:                                `"a." appears twice, again at byte 12`,
		`{"a":1,"c":2}`:                                    `json: unknown field "c"`,
		`{"a":1} {}`:                                       "after top-level value",
	} {
		err := DecodeExactly([]byte(raw), &fields{})
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(got, want) && want != "" {
			t.Errorf("%s gives %q, want %q", raw, got, want)
		}
	}
	// The time is linear in the number of names.
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	if err := DecodeExactly([]byte(`{"a":{`+b.String()[1:]+`,"7":1}}`), &fields{}); err == nil || !strings.Contains(err.Error(), `"a[7]" appears twice`) {
		t.Errorf("error is %v", err)
	}
}
