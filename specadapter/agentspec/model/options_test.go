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
		"unknown profile":                              {model.Options{Profile: "loose"}, `in.yaml: error: unknown profile "loose" [unknown-profile]`},
		"duplicate file":                               {model.Options{Components: []model.File{lib, lib}}, `lib.yaml: error: duplicate file of components "lib.yaml" [file-twice]`},
		"document among the component files":           {model.Options{Components: []model.File{{Name: "in.yaml", Text: lib.Text}}}, `in.yaml: error: duplicate file of components "in.yaml" [file-twice]`},
		"too many files":                               {model.Options{Components: make([]model.File, model.MaxFiles+1)}, `in.yaml: error: 101 files of components exceed the limit of 100 [too-many]`},
		"plugin component with a used name":            {model.Options{Plugins: []catalog.Type{{Name: "Agent"}}}, `in.yaml: error: the name "Agent" of a plugin's component is blank or already used [plugin-row]`},
		"plugin component that extends an unknown one": {model.Options{Plugins: []catalog.Type{{Name: "X", Like: "Y"}}}, `in.yaml: error: the plugin's component "X" extends the unknown component "Y" [plugin-row]`},
		"syntax error in a file":                       {model.Options{Components: []model.File{{Name: "bad.json", Text: []byte("{")}}}, `bad.json:1:2: error: unexpected end of text [syntax]`},
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

// TestComponentFields checks that the accessors return what the document sets, or the catalog's default.
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
		"text":                       {a.Text("system_prompt"), "Help"},
		"default text":               {m.Text("api_type"), "chat_completions"},
		"unset text without default": {m.Text("url"), ""},
		"default template":           {tr.Text("summarized_conversation_template"), "Summarized conversation: {{summary}}"},
		"flag":                       {x.Flag("requires_confirmation"), true},
		"default flag":               {a.Flag("human_in_the_loop"), true},
		"number":                     {tr.Number("min_num_messages"), 4.0},
		"default number":             {tr.Number("max_num_messages"), 50.0},
		"field of an object":         {string(m.Field("retry_policy").Fields["max_attempts"].JSON.JSON()), "5"},
		"metadata":                   {string(x.Metadata.JSON()), `{"k":1}`},
		"component":                  {tr.Component("llm").Key, "other"},
		"single-element list":        {a.Component("tools"), x},
		"no component":               {a.Component("toolboxes") == nil, true},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
}

// TestPluginEdge checks that a plugin's edge without nodes is not treated as an edge.
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
