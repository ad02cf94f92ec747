package serverrequest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/activities/tool/serverrequest"
)

// TestSampling checks sampling requests of servers. An invalid one is rejected with the path of its error.
func TestSampling(t *testing.T) {
	const png, wav = "iVBORw0KGgo=", "UklGRiQAAABXQVZFZm10IA=="
	user := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	text := func(s string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, s) }
	for name, tc := range map[string]struct{ params, want string }{
		"text":                     {`{"messages":[{"role":"user","content":` + text("key-1") + `},{"role":"assistant","content":` + text("b") + `}],"systemPrompt":"key-1","maxTokens":7,"temperature":0,"stopSequences":["x"]}`, `{"system":"***","messages":[{"role":"user","text":"***"},{"role":"assistant","text":"b"}],"max_tokens":7,"temperature":0,"stop":["x"]}`},
		"too many tokens":          {`{"messages":[{"role":"user","content":` + text("a") + `}],"maxTokens":1e30}`, `"max_tokens":100}`},
		"default tokens":           {user(text("a")), `"max_tokens":100}`},
		"image":                    {user(`[` + text("a") + `,{"type":"image","mimeType":"image/gif","data":"` + png + `"}]`), `"text":"a\n[image 1, image/png, 8 bytes]","images":[{"media_type":"image/png"`},
		"audio":                    {user(`{"type":"audio","data":"` + wav + `"}`), `"images":[{"media_type":"audio/wav"`},
		"invalid base64":           {user(`{"type":"image","data":"!"}`), "message 1: data is not base64"},
		"unsupported file type":    {user(`{"type":"image","data":"aGVsbG8="}`), "message 1: unsupported file type"},
		"tool result":              {user(`{"type":"tool_result"}`), `message 1: content of type "tool_result" is not supported`},
		"no content":               {`{"messages":[{"role":"user"}]}`, "message 1: "},
		"empty content":            {user(`[]`), "message 1: content is missing"},
		"unknown role":             {`{"messages":[{"role":"system","content":` + text("a") + `}]}`, `message 1: role "system" is neither`},
		"no messages":              {`{}`, "messages are missing"},
		"not an object":            {`7`, "cannot unmarshal"},
		"tools":                    {`{"tools":[{}],"messages":[{"role":"user","content":` + text("a") + `}]}`, "tools are not supported"},
		"temperature out of range": {`{"temperature":3,"messages":[{"role":"user","content":` + text("a") + `}]}`, "temperature must be a number from 0 to 2"},
		"invalid stop sequences":   {`{"stopSequences":["","b"],"messages":[{"role":"user","content":` + text("a") + `}]}`, "stopSequences must be at most"},
		"too long":                 {user(text(strings.Repeat("a", 1<<20))), "at most 1048576 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &serverrequest.Policy{SamplingTokens: 100, Redact: func(s string) string { return strings.ReplaceAll(s, "key-1", "***") }}
			q, refusal := p.Parse("sampling/createMessage", json.RawMessage(tc.params))
			got := ""
			if refusal != nil {
				got = refusal.Text
			} else if raw, err := json.Marshal(q.Sampling); err == nil {
				got = string(raw)
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("got %.300s, want %s", got, tc.want)
			}
			if refusal != nil && q.Sampling != nil {
				t.Errorf("refused request is parsed as %+v", q)
			}
		})
	}
}

// TestElicitation checks requests of servers for user input.
func TestElicitation(t *testing.T) {
	for params, want := range map[string]string{
		`{"message":"a","requestedSchema":{"type":"object"}}`: "",
		`{"message":"a"}`: "requestedSchema is missing",
		`{"mode":"url","message":"a","url":"https://example.com/x"}`: "",
		`{"mode":"url","message":"a","url":"file:///etc/passwd"}`:    "not a http or https URL",
		`{"mode":"url","message":"a","url":"javascript:alert(1)"}`:   "not a http or https URL",
		`{"message":"` + strings.Repeat("a", 64<<10) + `"}`:          "at most 65536 are allowed",
	} {
		q, refusal := (&serverrequest.Policy{Redact: strings.ToUpper}).Parse("elicitation/create", json.RawMessage(params))
		if refusal == nil {
			refusal = &serverrequest.Refusal{}
			if q.Text != "A" || (q.Schema == nil) == (q.URL == "") {
				t.Errorf("%s: got %+v", params, q)
			}
		}
		if want == "" && refusal.Text != "" || !strings.Contains(refusal.Text, want) {
			t.Errorf("%.100s: got %q, want %q", params, refusal.Text, want)
		}
	}
}

// TestParseRoot checks the syntax of roots in settings.
func TestParseRoot(t *testing.T) {
	for text, want := range map[string]serverrequest.Root{
		"file:///srv/a":          {URI: "file:///srv/a"},
		"data=file:///srv/a?b=c": {URI: "file:///srv/a?b=c", Name: "data"},
		"file:///srv/a=b":        {URI: "file:///srv/a=b"},
		"/srv/a":                 {},
		"https://example.com/a":  {},
		"data=":                  {},
		"file:relative":          {},
	} {
		if got, err := serverrequest.ParseRoot(text); got != want || (err == nil) != (want != serverrequest.Root{}) {
			t.Errorf("ParseRoot(%q) = %+v, %v", text, got, err)
		}
	}
}
