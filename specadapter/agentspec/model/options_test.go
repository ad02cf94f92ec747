package model_test

import (
	"strings"
	"testing"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/agentspec/model"
)

const smallModel = "agentspec_version: 26.2.0\ncomponent_type: OllamaConfig\nname: m\nurl: http://localhost\nmodel_id: m\n"

func TestOptions(t *testing.T) {
	lib := model.File{Name: "lib.yaml", Text: []byte("$referenced_components: {}\n")}
	tests := map[string]struct {
		o    model.Options
		want string
	}{
		"a profile that is none":        {model.Options{Profile: "loose"}, `in.yaml: error: unknown profile "loose" [unknown-profile]`},
		"a file twice":                  {model.Options{Components: []model.File{lib, lib}}, `lib.yaml: error: duplicate file of components "lib.yaml" [file-twice]`},
		"the document as a file":        {model.Options{Components: []model.File{{Name: "in.yaml", Text: lib.Text}}}, `in.yaml: error: duplicate file of components "in.yaml" [file-twice]`},
		"too many files":                {model.Options{Components: make([]model.File, model.MaxFiles+1)}, `in.yaml: error: 101 files of components exceed the limit of 100 [too-many]`},
		"a plugin's name that is taken": {model.Options{Plugins: []catalog.Type{{Name: "Agent"}}}, `in.yaml: error: the name "Agent" of a plugin's component is blank or already used [plugin-row]`},
		"a plugin like nothing":         {model.Options{Plugins: []catalog.Type{{Name: "X", Like: "Y"}}}, `in.yaml: error: the plugin's component "X" extends the unknown component "Y" [plugin-row]`},
		"a file that is no YAML":        {model.Options{Components: []model.File{{Name: "bad.json", Text: []byte("{")}}}, `bad.json:1:2: error: unexpected end of text [syntax]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			doc, diags := model.Load("in.yaml", []byte(smallModel), tc.o)
			if doc != nil || len(diags) != 1 {
				t.Fatalf("got %v and\n%s", doc, render(diags))
			}
			if got, _, _ := strings.Cut(diags[0].String(), "\n"); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// The accessors give what the author wrote, or the table's default.
func TestComponentFields(t *testing.T) {
	doc, diags := model.Load("in.yaml", []byte(`agentspec_version: 26.2.0
component_type: Agent
name: a
system_prompt: Help
llm_config: {component_type: OpenAiConfig, name: m, model_id: gpt, retry_policy: {max_attempts: 5}}
transforms: [{component_type: ConversationSummarizationTransform, name: t, llm: {$component_ref: other}, min_num_messages: 4}]
tools: [{component_type: ServerTool, name: x, requires_confirmation: true, metadata: {k: 1}}]
$referenced_components:
  other: {component_type: VllmConfig, name: o, url: "http://localhost", model_id: m, default_generation_parameters: {temperature: 0.5}}
`), model.Options{})
	if doc == nil {
		t.Fatal(render(diags))
	}
	a := doc.Root
	m, tr, x := a.Component("llm_config"), a.Components("transforms")[0], a.Components("tools")[0]
	for name, pair := range map[string][2]any{
		"a text":                {a.Text("system_prompt"), "Help"},
		"a text by default":     {m.Text("api_type"), "chat_completions"},
		"a text without any":    {m.Text("url"), ""},
		"a template by default": {tr.Text("summarized_conversation_template"), "Summarized conversation: {{summary}}"},
		"a flag":                {x.Flag("requires_confirmation"), true},
		"a flag by default":     {a.Flag("human_in_the_loop"), true},
		"a number":              {tr.Number("min_num_messages"), 4.0},
		"a number by default":   {tr.Number("max_num_messages"), 50.0},
		"a field of an object":  {string(m.Field("retry_policy").Fields["max_attempts"].JSON.JSON()), "5"},
		"metadata":              {string(x.Metadata.JSON()), `{"k":1}`},
		"a component":           {tr.Component("llm").Key, "other"},
		"a list of one":         {a.Component("tools"), x},
		"no component":          {a.Component("toolboxes") == nil, true},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
}

// An edge of a plugin's that does not say where it leads is not an edge.
func TestPluginEdge(t *testing.T) {
	doc, diags := model.LoadComponents("in.yaml", []byte(`agentspec_version: 26.2.0
$referenced_components:
  s: {component_type: StartNode, name: s}
  e: {component_type: EndNode, name: e}
  f:
    component_type: Flow
    name: f
    start_node: {$component_ref: s}
    nodes: [{$component_ref: s}, {$component_ref: e}]
    control_flow_connections: [{component_type: Arrow, name: a}]
`), model.Options{Plugins: []catalog.Type{{Name: "Arrow", Is: []string{"ControlFlowEdge"}}}})
	if doc != nil || strings.Join(errorCodes(diags), " ") != "end-incoming start-out-edges" {
		t.Errorf("got %v\n%s", doc, render(diags))
	}
}
