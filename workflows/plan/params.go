package plan

import (
	"encoding/json"
	"math"
	"slices"
)

// The tool choices of [Params] that are not a tool's name.
const (
	ChoiceAuto     = "auto"
	ChoiceNone     = "none"
	ChoiceRequired = "required"
)

// Params are the parameters of a node's model calls. What is absent is not sent: the
// provider's default holds. A parameter that the model's provider does not take fails the
// call, except that models which refuse sampling parameters get none.
//
// Sources: Koog's config, Agent Spec's default_generation_parameters.
type Params struct {
	// Temperature and TopP: 0 is a value.
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	TopK        int      `json:"top_k,omitempty"`
	// MaxTokens bounds one answer.
	MaxTokens int      `json:"max_tokens,omitempty"`
	Stop      []string `json:"stop,omitempty"`
	Seed      *int     `json:"seed,omitempty"`
	// Frequency and Presence are penalties, -2 to 2.
	Frequency float64 `json:"frequency_penalty,omitempty"`
	Presence  float64 `json:"presence_penalty,omitempty"`
	// ToolChoice is one of the constants, or the name by which the model knows a tool. A
	// choice that forces a call holds until a tool has answered: else no node would end.
	ToolChoice string `json:"tool_choice,omitempty"`
	// Parallel allows or forbids several tool calls in one answer.
	Parallel *bool `json:"parallel_tool_calls,omitempty"`
	// Effort is how much a model thinks: one of [Efforts].
	Effort string `json:"reasoning_effort,omitempty"`
	// API is by which of OpenAI's protocols the model is asked, where its provider has both: one of [APIs], or empty for
	// the worker's choice.
	API string `json:"api,omitempty"`
	// Extra is a JSON object of further fields of the provider's request, sent as they
	// are. Its keys are sorted, so that equal parameters are equal plans.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// Efforts are the values of [Params.Effort].
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// APIs are the values of [Params.API].
var APIs = []string{"chat", "responses"}

// params checks a node's parameters.
func (c *checker) params(n *Node) {
	p := n.Agent.Params
	if p == nil {
		return
	}
	for _, f := range []struct {
		name        string
		v           *float64
		least, most float64
	}{
		{"temperature", p.Temperature, 0, 2}, {"top_p", p.TopP, 0, 1}, {"frequency_penalty", &p.Frequency, -2, 2}, {"presence_penalty", &p.Presence, -2, 2},
	} {
		if f.v != nil && (math.IsNaN(*f.v) || *f.v < f.least || *f.v > f.most) {
			c.add("node %q: params.%s is %v, want %v to %v", n.ID, f.name, *f.v, f.least, f.most)
		}
	}
	if p.TopK < 0 || p.MaxTokens < 0 || p.Seed != nil && *p.Seed < 0 {
		c.add("node %q: params.top_k, max_tokens and seed want 0 or more", n.ID)
	}
	if p.API != "" && !slices.Contains(APIs, p.API) {
		c.add("node %q: params.api is %q, want one of %v", n.ID, p.API, APIs)
	}
	if p.Effort != "" && !slices.Contains(Efforts, p.Effort) {
		c.add("node %q: params.reasoning_effort is %q, want one of %v", n.ID, p.Effort, Efforts)
	}
	c.choice(n)
}

// choice checks a node's tool choice, and what goes to the provider unread.
func (c *checker) choice(n *Node) {
	p := n.Agent.Params
	var extra map[string]json.RawMessage
	if len(p.Extra) > 0 && (json.Unmarshal(p.Extra, &extra) != nil || extra == nil) {
		c.add("node %q: params.extra is not a JSON object", n.ID)
	}
	if !slices.Contains([]string{"", ChoiceAuto, ChoiceNone, ChoiceRequired}, p.ToolChoice) && n.Agent.Toolboxes == nil && !n.Agent.HasTool(p.ToolChoice) {
		c.add("node %q: params.tool_choice is %q, want auto, none, required or a tool of the node", n.ID, p.ToolChoice)
	}
}

// HasTool reports whether an agent's model can call something by a name.
func (a *Agent) HasTool(name string) bool {
	return slices.Contains(a.Builtins, name) || slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.As == name }) ||
		a.Finish != nil && a.Finish.Name == name || a.Ask != nil && a.Ask.Name == name || a.Handoff != nil && a.Handoff.Name == name
}

// Inputs declare what a run of a flow is given: a JSON object of parameters, from which the
// text for the flow is made.
//
// Sources: the blueprint dialect's parameters_schema.
type Inputs struct {
	// Schema is a JSON Schema (draft 7) of the parameters, in the author's key order. Absent:
	// a text "prompt" and nothing else.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Mode is [InputsMerged], [InputsAuthoritative], [InputsProcedural] or [InputsNamed].
	Mode string `json:"mode"`
	// Style is how errors name places: [StyleFramework] or [StyleDocumented].
	Style string `json:"style,omitempty"`
	// Placeholders reports whether the flow's texts hold placeholders, such as ${params.topic},
	// that a run's start replaces.
	Placeholders bool `json:"placeholders,omitempty"`
}

// The modes of [Inputs].
const (
	// InputsMerged wants "prompt" whatever the schema says; the other parameters stand before it.
	InputsMerged = "merged"
	// InputsAuthoritative takes the schema as it is written; all parameters stand together.
	InputsAuthoritative = "authoritative"
	// InputsProcedural is that of a program instead of a model: without a schema any object
	// will do, and there is no prompt.
	InputsProcedural = "procedural"
	// InputsNamed leaves the parameters as they are: they are the values of a flow with
	// [Values.Named]. The schema is the author's.
	InputsNamed = "named"
)

// The styles of [Inputs] and of an [Output].
const (
	// StyleFramework is that of the dialect's framework: $.tags.0 and properties/tags/type.
	StyleFramework = ""
	// StyleDocumented is that of the dialect's documentation: $.tags[0] and properties.tags.type,
	// and a property that is missing is named by the path.
	StyleDocumented = "documented"
)
