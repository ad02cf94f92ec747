package session

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// sharedCases reads cases recorded from the dialect's framework, and skips the test if they do not exist.
func sharedCases(t *testing.T, name string, out any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "cases", name))
	if err != nil {
		t.Skipf("../shared/cases/%s does not exist", name)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
}

func text(s string) *string { return &s }

func TestCallback(t *testing.T) {
	completed := Child{ID: "ses_1", Text: text("fine")}
	data := Child{ID: "ses_2", Text: text("not shown"), Data: json.RawMessage(`{"größe":1.0}`)}
	failed := Child{ID: "ses_3", Text: text("not shown"), Failed: true, Problem: Stopped}
	tests := map[string]struct {
		children []Child
		want     string
	}{
		"none":                     {nil, ""},
		"text":                     {[]Child{completed}, "<agent-callback session=\"ses_1\" status=\"completed\">\n## Child Result\n\nfine\n</agent-callback>\n\nPlease continue with the orchestration based on this result."},
		"data":                     {[]Child{data}, "<agent-callback session=\"ses_2\" status=\"completed\">\n## Child Result\n\n{\n  \"gr\\u00f6\\u00dfe\": 1.0\n}\n</agent-callback>\n\nPlease continue with the orchestration based on this result."},
		"failed":                   {[]Child{failed}, "<agent-callback session=\"ses_3\" status=\"failed\">\n## Error\n\nSession was manually stopped\n</agent-callback>\n\nPlease handle this failure and continue with the orchestration."},
		"failure without an error": {[]Child{{ID: "x", Failed: true}}, "<agent-callback session=\"x\" status=\"failed\">\n## Error\n\nUnknown error\n</agent-callback>\n\nPlease handle this failure and continue with the orchestration."},
		"no result":                {[]Child{{ID: "x", Data: json.RawMessage("null")}}, "<agent-callback session=\"x\" status=\"completed\">\n## Child Result\n\n(No result available)\n</agent-callback>\n\nPlease continue with the orchestration based on this result."},
		"two": {[]Child{completed, failed}, "<agent-callback type=\"aggregated\" count=\"2\">\n### Child: ses_1 (status: completed)\n\nfine\n\n---\n\n" +
			"### Child: ses_3 (status: failed)\n\nSession was manually stopped\n</agent-callback>\n\nPlease continue with the orchestration based on these results."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Callback(tc.children); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// child decodes [id, result, failed, error].
func child(t *testing.T, raw []json.RawMessage) Child {
	t.Helper()
	var c Child
	var result struct {
		Text *string         `json:"result_text"`
		Data json.RawMessage `json:"result_data"`
	}
	var problem *string
	for i, to := range []any{&c.ID, &result, &c.Failed, &problem} {
		if err := json.Unmarshal(raw[i], to); err != nil {
			t.Fatal(err)
		}
	}
	c.Text, c.Data = result.Text, result.Data
	if problem != nil {
		c.Problem = *problem
	}
	return c
}

func TestCallbackMatchesFramework(t *testing.T) {
	var in struct {
		Single []struct {
			Child  []json.RawMessage
			Expect string
		}
		Aggregated []struct {
			Children [][]json.RawMessage
			Expect   string
		}
	}
	sharedCases(t, "aof_callbacks.json", &in)
	for _, c := range in.Single {
		if got := Callback([]Child{child(t, c.Child)}); got != c.Expect {
			t.Errorf("got  %q\nwant %q", got, c.Expect)
		}
	}
	for _, c := range in.Aggregated {
		var children []Child
		for _, raw := range c.Children {
			children = append(children, child(t, raw))
		}
		if got := Callback(children); got != c.Expect {
			t.Errorf("got  %q\nwant %q", got, c.Expect)
		}
	}
	if len(in.Single) < 8 || len(in.Aggregated) < 2 {
		t.Errorf("%d single and %d aggregated cases, want at least 8 and 2", len(in.Single), len(in.Aggregated))
	}
}

func TestReadVerdict(t *testing.T) {
	tests := map[string]struct {
		data  string
		text  *string
		want  Verdict
		fails bool
	}{
		"no result":                  {"", nil, Verdict{}, false},
		"continue":                   {`{"action":"continue"}`, text("{}"), Verdict{}, false},
		"other parameters":           {`{"parameters":{"b":1.0,"a":"<"}}`, nil, Verdict{Params: json.RawMessage(`{"b": 1.0, "a": "<"}`)}, false},
		"block":                      {`{"action":"block","block_reason":"no","parameters":{}}`, nil, Verdict{Block: true, Reason: "no"}, false},
		"block with an empty reason": {`{"action":"block","block_reason":""}`, nil, Verdict{Block: true}, false},
		"block in the text":          {`null`, text(` {"action":"block"} `), Verdict{Block: true}, false},
		"unknown action":             {`{"action":["block"]}`, nil, Verdict{}, false},
		"text":                       {``, text("fine"), Verdict{}, false},
		"null as text":               {``, text("null"), Verdict{}, false},
		"list":                       {`[1]`, nil, Verdict{}, true},
		"number as text":             {``, text("1"), Verdict{}, true},
		"list as parameters":         {`{"parameters":[1]}`, nil, Verdict{}, true},
		"null as parameters":         {`{"parameters":null}`, nil, Verdict{}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ReadVerdict(json.RawMessage(tc.data), tc.text)
			if got.Block != tc.want.Block || got.Reason != tc.want.Reason || string(got.Params) != string(tc.want.Params) || (err != nil) != tc.fails {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	if got := (&Verdict{}).Blocked() + (&Verdict{Reason: "x"}).Blocked(); got != "Blocked by on_run_start hook: No reason providedBlocked by on_run_start hook: x" {
		t.Error(got)
	}
}

func TestVerdictMatchesFramework(t *testing.T) {
	var in []struct {
		Name   string
		Result *struct {
			Data json.RawMessage `json:"result_data"`
			Text *string         `json:"result_text"`
		}
		Expect struct {
			Action string
			Params json.RawMessage `json:"parameters"`
			Reason *string         `json:"block_reason"`
			Raises string
		}
	}
	sharedCases(t, "aof_hook_on_run_start.json", &in)
	for _, c := range in {
		var data json.RawMessage
		var text *string
		if c.Result != nil {
			data, text = c.Result.Data, c.Result.Text
		}
		got, err := ReadVerdict(data, text)
		if (c.Expect.Raises != "") != (err != nil) {
			t.Errorf("%s: error is %v", c.Name, err)
			continue
		}
		reason := ""
		if c.Expect.Reason != nil {
			reason = *c.Expect.Reason
		}
		if got.Block != (c.Expect.Action == "block") || got.Reason != reason || canonical(t, got.Params) != canonical(t, c.Expect.Params) {
			t.Errorf("%s: got %+v, want %+v", c.Name, got, c.Expect)
		}
	}
	if len(in) < 12 {
		t.Errorf("%d cases, want at least 12", len(in))
	}
}

// canonical returns JSON without whitespace, or null if raw is empty.
func canonical(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	if len(raw) == 0 {
		return "null"
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
