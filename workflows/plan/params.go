package plan

import (
	"encoding/json"
	"math"
	"slices"
)

// The values of [Params.ToolChoice] that are not a tool's name.
const (
	ChoiceAuto     = "auto"
	ChoiceNone     = "none"
	ChoiceRequired = "required"
)

// Params are the parameters of a node's model calls. Absent parameters are not sent, so the provider's default applies. A
// parameter that the model's provider does not support fails the call, except that sampling parameters are not sent to
// models that reject them.
//
// Sources: Koog's config, Agent Spec's default_generation_parameters.
type Params struct {
	// Temperature and TopP are pointers because 0 is a valid value.
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	TopK        int      `json:"top_k,omitempty"`
	// MaxTokens limits one answer.
	MaxTokens int      `json:"max_tokens,omitempty"`
	Stop      []string `json:"stop,omitempty"`
	Seed      *int     `json:"seed,omitempty"`
	// Frequency and Presence are penalties from -2 to 2.
	Frequency float64 `json:"frequency_penalty,omitempty"`
	Presence  float64 `json:"presence_penalty,omitempty"`
	// ToolChoice is one of the constants, or a tool's name as the model knows it. A choice that forces a call applies
	// until a tool has answered; otherwise no node would end.
	ToolChoice string `json:"tool_choice,omitempty"`
	// Parallel allows or forbids several tool calls in one answer.
	Parallel *bool `json:"parallel_tool_calls,omitempty"`
	// Effort is the reasoning effort: one of [Efforts].
	Effort string `json:"reasoning_effort,omitempty"`
	// API selects the protocol if the provider supports both of OpenAI's: one of [APIs], or empty for the worker's
	// choice.
	API string `json:"api,omitempty"`
	// Extra is a JSON object of further fields for the provider's request, sent unchanged. Its keys are sorted, so that
	// equal parameters make equal plans.
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
			c.add("node %q: params.%s must be %v to %v, got %v", n.ID, f.name, f.least, f.most, *f.v)
		}
	}
	if p.TopK < 0 || p.MaxTokens < 0 || p.Seed != nil && *p.Seed < 0 {
		c.add("node %q: params.top_k, max_tokens and seed must not be negative", n.ID)
	}
	if p.API != "" && !slices.Contains(APIs, p.API) {
		c.add("node %q: params.api must be one of %v, got %q", n.ID, APIs, p.API)
	}
	if p.Effort != "" && !slices.Contains(Efforts, p.Effort) {
		c.add("node %q: params.reasoning_effort must be one of %v, got %q", n.ID, Efforts, p.Effort)
	}
	c.choice(n)
}

// choice checks a node's tool choice and Extra.
func (c *checker) choice(n *Node) {
	p := n.Agent.Params
	var extra map[string]json.RawMessage
	if len(p.Extra) > 0 && (json.Unmarshal(p.Extra, &extra) != nil || extra == nil) {
		c.add("node %q: params.extra is not a JSON object", n.ID)
	}
	if !slices.Contains([]string{"", ChoiceAuto, ChoiceNone, ChoiceRequired}, p.ToolChoice) && n.Agent.Toolboxes == nil && !n.Agent.HasTool(p.ToolChoice) {
		c.add("node %q: params.tool_choice is %q; use auto, none, required or a tool of the node", n.ID, p.ToolChoice)
	}
}

// HasTool reports whether the agent's model can call a tool by that name.
func (a *Agent) HasTool(name string) bool {
	return slices.Contains(a.Builtins, name) || slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.As == name }) ||
		a.Finish != nil && a.Finish.Name == name || a.Ask != nil && a.Ask.Name == name || a.Handoff != nil && a.Handoff.Name == name
}

// Inputs declare the input of a flow's runs: a JSON object of parameters, from which the flow's input text is made.
//
// Sources: the blueprint dialect's parameters_schema.
type Inputs struct {
	// Schema is a JSON Schema (draft 7) of the parameters, in the author's key order. If absent, the only parameter is a
	// string "prompt".
	Schema json.RawMessage `json:"schema,omitempty"`
	// Mode is [InputsMerged], [InputsAuthoritative], [InputsProcedural] or [InputsNamed].
	Mode string `json:"mode"`
	// Style is how errors denote places: [StyleFramework] or [StyleDocumented].
	Style string `json:"style,omitempty"`
	// Placeholders reports whether the flow's texts contain placeholders, such as ${params.topic}, to be replaced when a
	// run starts.
	Placeholders bool `json:"placeholders,omitempty"`
}

// The modes of [Inputs].
const (
	// InputsMerged requires "prompt" whatever the schema says; the other parameters precede it.
	InputsMerged = "merged"
	// InputsAuthoritative uses the schema as it is, and lists all parameters together.
	InputsAuthoritative = "authoritative"
	// InputsProcedural is for a program instead of a model: without a schema any object is valid, and there is no prompt.
	InputsProcedural = "procedural"
	// InputsNamed leaves the parameters unchanged: they are the values of a flow with [Values.Named]. The schema is the
	// author's.
	InputsNamed = "named"
)

// The values of [Inputs.Style] and [Output.Style].
const (
	// StyleFramework is the notation of the dialect's framework: $.tags.0 and properties/tags/type.
	StyleFramework = ""
	// StyleDocumented is the notation of the dialect's documentation: $.tags[0] and properties.tags.type; the path of a
	// missing property includes its name.
	StyleDocumented = "documented"
)
