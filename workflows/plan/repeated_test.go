package plan

import (
	"fmt"
	"strings"
	"testing"
)

// TestRepeated finds names that an object has twice, wherever it stands.
func TestRepeated(t *testing.T) {
	for raw, want := range map[string]string{
		``: "", `7`: "", `"a"`: "", `{}`: "", `[]`: "", `]`: "", `}`: "", `,`: "", `{"a`: "", `"\`: "",
		`{"a":1,"b":2}`:                                    "",
		`{"a":1,"a":2}`:                                    "a 8",
		` { "a" : 1 , "b" : "a" , "a" : 2 }`:               "a 26",
		`{"approve":false,"\u0061pprove":true}`:            "approve 18",
		`{"approve":false,"Approve":true}`:                 "Approve 18",
		`{"text":"x","teſt":1,"ﬆ":2}`:                      "",
		`{"reason":"x","reaſon":"y"}`:                      "reaſon 15",
		`{"a":{"to":1,"To":2,"n":["to","to"]}}`:            "",
		`{"a":{"to":1,"n":[{"x":1},{"x":1,"y":0,"x":2}]}}`: "a.n[1].x 40",
		`{"a":{"a":{"a":1}},"b":["a","a",{"a":1}]}`:        "",
		`[{"a":1},{"a":1}]`:                                "",
		`[[],[0,{"a":1,"a":1}]]`:                           "[1][1].a 15",
		`{"a":"{\"b\":1,\"b\":2}","b":"\\","c":"\""}`:      "",
		`{"a":"\\","a":1}`:                                 "a 11",
		"{\"x\":{\"\xff\":1,\"\xfe\":2}}":                  "x.\ufffd 13",
		`{"":1,"":2}`:                                      " 7",
	} {
		got := ""
		if path, at := Repeated([]byte(raw)); at > 0 {
			got = fmt.Sprint(path, " ", at)
		}
		if got != want {
			t.Errorf("%s has %q, want %q", raw, got, want)
		}
	}
	// As many names as a body holds are looked at once each.
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	if path, at := Repeated([]byte("{" + b.String()[1:] + `,"7":1}`)); path != "7" || at == 0 {
		t.Errorf("%q at %d", path, at)
	}
}
