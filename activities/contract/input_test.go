package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/workflows/plan"
)

func TestDataConnections(t *testing.T) {
	tests := map[string]struct {
		in   string
		want plan.Connection
		bad  bool
	}{
		"MCP as Continuum writes it": {in: `{"id":"a","type":1,"name":"A","config":{"url":"https://x.example/mcp"}}`, want: plan.Connection{ID: "a", Name: "A", Kind: "mcp", URL: "https://x.example/mcp"}},
		"a sub-agent the same way":   {in: `{"id":"b","type":2,"description":"D","config":{"agent_id":"sub"}}`, want: plan.Connection{ID: "b", Description: "D", Kind: "agent", Agent: "sub"}},
		"as in a plan":               {in: `{"id":"c","kind":"mcp","url":"https://x.example"}`, want: plan.Connection{ID: "c", Kind: "mcp", URL: "https://x.example"}},
		"no type: MCP":               {in: `{"id":"d"}`, want: plan.Connection{ID: "d", Kind: "mcp"}},
		"unknown type":               {in: `{"id":"e","type":7}`, bad: true},
		"unknown kind":               {in: `{"id":"f","kind":"carrier pigeon"}`, bad: true},
		"no id":                      {in: `{"type":1}`, bad: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var d DataConnection
			if err := json.Unmarshal([]byte(tc.in), &d); err != nil {
				t.Fatal(err)
			}
			got, err := d.Connection()
			if (err != nil) != tc.bad {
				t.Fatalf("error is %v", err)
			}
			if diff := cmp.Diff(tc.want, got); !tc.bad && diff != "" {
				t.Errorf("connection (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadInput(t *testing.T) {
	const flow = `"v":1,"flow":{"text":"{}","name":"x.json"}`
	const docs = `"components":[{"name":"m.yaml","text":"a: 1"}]`
	const files = `"v":1,"flow":{"text":"{}","name":"agent.json","files":[`
	tests := map[string]struct{ in, err string }{
		"params and components":             {in: `{` + flow + `,"params":{"b":1,"a":2},` + docs + `,"component_ids":[{"id":"llm","name":"m.yaml","key":"a"}]}`},
		"components in the flow":            {in: `{"v":1,"flow":{"text":"{}",` + docs + `}}`},
		"components in two places":          {in: `{"v":1,"flow":{"text":"{}",` + docs + `},` + docs + `}`, err: "components are set both next to flow and in it"},
		"components of a plan":              {in: `{"v":1,"flow":{"plan":{"version":1}},` + docs + `}`, err: "components cannot be used with a compiled plan"},
		"a component without a text":        {in: `{` + flow + `,"components":[{"name":"m.yaml"}]}`, err: "components[0] has no name or no text"},
		"two components of one name":        {in: `{` + flow + `,"components":[{"name":"m","text":"1"},{"name":"m","text":"2"}]}`, err: `components[1].name is "m" again`},
		"an id of an unknown component":     {in: `{` + flow + `,` + docs + `,"component_ids":[{"id":"llm","name":"x","key":"a"}]}`, err: `component_ids[0].name is "x"`},
		"an id without a key":               {in: `{` + flow + `,` + docs + `,"component_ids":[{"id":"llm","name":"m.yaml","key":""}]}`, err: "component_ids[0] has no id or no key"},
		"an id twice":                       {in: `{` + flow + `,` + docs + `,"component_ids":[{"id":"l","name":"m.yaml","key":"a"},{"id":"l","name":"m.yaml","key":"b"}]}`, err: `component_ids[1].id is "l" again`},
		"files around a document":           {in: `{"v":1,"flow":{"text":"{}","name":"agents/a/agent.json",` + docs + `,"files":[{"name":"agents/a/.disabled","text":""},{"name":"scripts/s/script.json","text":"{}"}]}}`},
		"files of a plan":                   {in: `{"v":1,"flow":{"plan":{"version":1},"files":[{"name":"x","text":""}]}}`, err: "flow.files cannot be used with a compiled plan"},
		"files of a flow by name":           {in: `{"v":1,"flow":{"name":"triage","files":[{"name":"x","text":""}]}}`, err: `flow.files cannot be used with the worker's flow "triage"`},
		"files without the document's name": {in: `{"v":1,"flow":{"text":"{}","files":[{"name":"x","text":""}]}}`, err: "flow.files requires flow.name; set it to the document's path"},
		"a file without a name":             {in: `{` + files + `{"text":"x"}]}}`, err: "flow.files[0].name is empty"},
		"a file in a parent folder":         {in: `{` + files + `{"name":"../x","text":"x"}]}}`, err: `flow.files[0].name is "../x"; use a clean path with slashes`},
		"a file path that is not clean":     {in: `{` + files + `{"name":"a/../x","text":"x"}]}}`, err: `flow.files[0].name is "a/../x"; use`},
		"an absolute file path":             {in: `{` + files + `{"name":"/x","text":"x"}]}}`, err: `flow.files[0].name is "/x"; use`},
		"a file with backslashes":           {in: `{` + files + `{"name":"a\\x","text":"x"}]}}`, err: `use a clean path with slashes`},
		"a file twice":                      {in: `{` + files + `{"name":"x","text":"1"},{"name":"x","text":"2"}]}}`, err: `flow.files[1].name is "x", like flow.files[0].name`},
		"the document as a file":            {in: `{` + files + `{"name":"agent.json","text":"1"}]}}`, err: `flow.files[0].name is "agent.json", like flow.name`},
		"a file's misspelt field":           {in: `{` + files + `{"name":"x","txt":"1"}]}}`, err: `unknown field "txt"`},
		"params that are a list":            {in: `{` + flow + `,"params":[1]}`, err: "params must be an object with the flow's inputs, got [1]"},
		"a misspelt field next to the flow": {in: `{` + flow + `,"component":[]}`, err: `unknown field "component"`},
		"a misspelt field of a component":   {in: `{` + flow + `,"components":[{"name":"m","txt":"1"}]}`, err: `unknown field "txt"`},
		"a field twice":                     {in: `{` + flow + `,"on_error":"wait","on_error":"fail"}`, err: `"on_error" appears twice, again at byte 63: "on_error":"fail"}; remove one of them`},
		"a field in two cases":              {in: `{` + flow + `,"session":false,"Session":true}`, err: `"Session" appears twice`},
		"a parameter twice":                 {in: `{` + flow + `,"params":{"a":{"n":[{"b":1,"b":2}]}}}`, err: `"params.a.n[0].b" appears twice`},
		"an input that is not a string":     {in: `{` + flow + `,"input":{"a":1}}`, err: "input"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in, err := ReadInput(json.RawMessage(tc.in))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error is %v, want %q in it", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(in.Flow.Components) != 1 || len(in.Components) != 0 || len(in.ComponentIDs) != 0 {
				t.Errorf("components are %v in the flow and %v next to it", in.Flow.Components, in.Components)
			}
		})
	}
}
