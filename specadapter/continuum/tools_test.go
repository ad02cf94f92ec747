package continuum

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// TestToolNames checks that tool names for the model are valid, unique and deterministic.
func TestToolNames(t *testing.T) {
	long := strings.Repeat("long.", 20)
	conns := connections{list: []plan.Connection{{ID: "1", Name: "My Server"}, {ID: "2", Name: "My Server"}, {ID: "3"}}, byID: map[string]int{"1": 0, "2": 1, "3": 2}}
	tests := map[string]struct {
		bindings [][2]string // name, connection
		want     []string
	}{
		"unchanged name":               {[][2]string{{"search", "1"}, {"b c", "1"}}, []string{"search", "b_c"}},
		"two connections":              {[][2]string{{"search", "1"}, {"search", "3"}}, []string{"My_Server_search", "3_search"}},
		"connections of the same name": {[][2]string{{"search", "1"}, {"search", "2"}}, []string{"My_Server_search", "My_Server_search_#"}},
		"prefix that is a name":        {[][2]string{{"x", "1"}, {"x", "3"}, {"3_x", "1"}}, []string{"My_Server_x", "3_x_#", "3_x"}},
		"name of a system tool":        {[][2]string{{"get-state", "1"}, {"get state", "3"}}, []string{"get-state", "3_get_state"}},
		"same name after cleaning":     {[][2]string{{"a.b", "1"}, {"a b", "1"}}, []string{"My_Server_a_b", "My_Server_a_b_#"}},
		"no connection":                {[][2]string{{"a", ""}, {"a", "1"}}, []string{"a", "My_Server_a"}},
		"too long":                     {[][2]string{{long, "1"}}, []string{source.SafeName(long)[:55] + "_#"}},
		"a bound sub-agent":            {[][2]string{{"call_sub_agent", "1"}}, []string{"call_sub_agent"}},
		"two bound sub-agents":         {[][2]string{{"call_sub_agent", "1"}, {"call_sub_agent", "3"}}, []string{"My_Server_call_sub_agent", "3_call_sub_agent"}},
		"name like a sub-agent's":      {[][2]string{{"call sub agent", "1"}}, []string{"My_Server_call_sub_agent"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var tools []boundTool
			for _, b := range tc.bindings {
				tools = append(tools, boundTool{Tool: plan.Tool{Name: b[0], Connection: b[1]}})
			}
			got := assignNames(tools, conns)
			for i, tool := range got {
				as := tool.As
				if prefix, ok := strings.CutSuffix(tc.want[i], "#"); ok && len(as) == len(prefix)+8 {
					as = as[:len(prefix)] + "#"
				}
				if as != tc.want[i] || len(tool.As) > maxToolName {
					t.Errorf("tool %d is %q, want %q", i, tool.As, tc.want[i])
				}
			}
			if again := assignNames(tools, conns); !reflect.DeepEqual(got, again) {
				t.Errorf("got %v, then %v", got, again)
			}
		})
	}
}

func TestManyToolsOfOneName(t *testing.T) {
	var tools []boundTool
	for i := range 2000 {
		tools = append(tools, boundTool{Tool: plan.Tool{Name: strings.Repeat("é", i%7+1), Connection: fmt.Sprint("c", i%50)}})
	}
	seen := map[string]bool{}
	for _, tool := range assignNames(tools, connections{}) {
		if seen[tool.As] || len(tool.As) > maxToolName || source.SafeName(tool.As) != tool.As {
			t.Fatalf("%q is a duplicate or invalid", tool.As)
		}
		seen[tool.As] = true
	}
}

func TestReadMermaid(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain":                   {"graph TD\n    START([START]) --> a[Do A]\n    a --> END([END])", "START>a a>END"},
		"texts on arrows":         {"a -->|yes --> no| b\nb -- some text --> c\nc -. maybe .-> d\nd == sure ==> e\na --> |x; y| c", "a>b b>c c>d d>e a>c"},
		"all arrows":              {"a --- b\na -.-> c\na ==> d\na --o e\na --x f\na <--> g\na ---> h\na~~~i", "a>b a>c a>d a>e a>f a>g a>h a>i"},
		"no blanks":               {"a-->b-->c-->|x|d", "a>b b>c c>d"},
		"groups and chains":       {"a & b --> c & d --> e", "a>c a>d b>c b>d c>e d>e"},
		"labels with anything":    {`a["x --> y]"] --> b{Is it [ok]?} --> c((round)) --> d[(db)] --> e>flag] --> f[/lean/]` + "\nf@{ shape: rect } --> g:::big --> h", "a>b b>c c>d d>e e>f f>g g>h"},
		"semicolons and comments": {"graph LR; a-->b; b-->c;\n%% c --> x\nsubgraph one\nc --> d\nend\nclassDef x fill:#fff\nstyle a fill:#f9f", "a>b b>c c>d"},
		"UUIDs":                   {"0000-11-aa --> 0000-22-bb", "0000-11-aa>0000-22-bb"},
		"ignored":                 {"1. go --> \n--> b\na[open --> b\n-->", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, l := range parseMermaid(tc.text).links {
				got = append(got, l[0]+">"+l[1])
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got  %s\nwant %s", s, tc.want)
			}
		})
	}
}

func TestTooMany(t *testing.T) {
	text := `{"name": "x", "nodes": [` + strings.TrimSuffix(strings.Repeat("1,", plan.MaxNodes+1), ",") + `], "edges": []}`
	doc, diags := source.Parse("x.json", []byte(text))
	if doc == nil {
		t.Fatal(diags)
	}
	_, _, diags = Adapter{}.Adapt(doc, ProfileDefault, source.Host{})
	for _, d := range diags {
		if d.Code == CodeTooManyElements && d.Severity == source.Error && d.Col == 24 {
			return
		}
	}
	t.Errorf("got %d diagnostics, none is %s", len(diags), CodeTooManyElements)
}
