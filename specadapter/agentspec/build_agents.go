package agentspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// Limits of agents, which the language leaves to runtimes.
const (
	agentCalls   = 50
	agentErrors  = 5
	agentRepairs = 2
	reminders    = 3
)

// prompt compiles an LlmNode to one model call, which is answered as text or, for other outputs, as JSON.
func (b *builder) prompt(c *model.Component) *plan.Agent {
	text := c.Text("prompt_template")
	a := &plan.Agent{Prompt: text, Opening: []plan.Piece{{Text: text}}, MaxCalls: 1, MaxErrors: 1}
	if len(c.Outputs) != 1 || !isText(c.Outputs[0]) || c.Outputs[0].Type.Enum != nil ||
		c.Outputs[0].Schema.FirstOf("pattern", "minLength", "maxLength", "format", "const") != "" {
		a.Output = jsonOutput(c.Outputs)
	}
	b.model(c.Component("llm_config"), a)
	return a
}

func isText(p *model.Property) bool { return p.Type != nil && p.Type.Kind == model.StringShape }

func jsonOutput(outputs []*model.Property) *plan.Output {
	out := &plan.Output{Schema: objectOf(outputs), Repairs: agentRepairs, Fit: true}
	if len(outputs) == 1 {
		out.ValueMember = outputs[0].Title
	}
	return out
}

// agent compiles an Agent or SpecializedAgent, which continues the flow's conversation. At the root,
// with human_in_the_loop, its plain answers are sent to the user. In a flow, a plain answer ends an
// agent without outputs; other agents end by submitting their outputs.
func (b *builder) agent(c *model.Component, node string, root bool) *plan.Agent {
	if c.Type.Satisfies("RemoteAgent") {
		return b.remote(c, root)
	}
	p := resolveAgent(c)
	a, taken := b.baseAgent(p, node)
	a.Conversation = plan.ConversationFlow
	a.Opening = opening(c.Inputs)
	b.setChat(a, p.Name, p.human, root, c.Outputs, taken)
	return a
}

// opening returns the first message of an agent if the conversation is empty.
func opening(inputs []*model.Property) []plan.Piece {
	begin := plan.Piece{Text: "Begin."}
	if len(inputs) > 0 {
		begin.From = plan.FromPorts
	}
	return []plan.Piece{begin}
}

// setChat configures an agent's conversation with the user and how the agent ends.
func (b *builder) setChat(a *plan.Agent, name string, human, root bool, outputs []*model.Property, taken map[string]bool) {
	if human && (root || len(outputs) > 0) {
		a.Chat = &plan.Chat{}
		if root {
			a.Chat.First = cmp.Or(name, "the agent") + " waits for a message"
		}
	}
	if len(outputs) > 0 {
		a.Finish = finish(outputs, unique(taken, "submit_result"), human)
	}
}

// resolvedAgent is an Agent merged with its specialization.
type resolvedAgent struct {
	*model.Component
	// base is the Agent, which has the model and the toolboxes.
	base  *model.Component
	text  string
	tools []*model.Component
	human bool
}

// resolveAgent merges an Agent with its specialization, whose instructions and tools are appended.
func resolveAgent(c *model.Component) *resolvedAgent {
	base := c
	if c.Type.Acts() == "SpecializedAgent" {
		base = c.Component("agent")
	}
	p := &resolvedAgent{Component: c, base: base, text: base.Text("system_prompt"), tools: base.Components("tools"), human: base.Flag("human_in_the_loop")}
	more := c.Component("agent_specialization_parameters")
	if more == nil {
		return p
	}
	if text := more.Text("additional_instructions"); text != "" {
		p.text = strings.TrimSuffix(p.text, "\n") + "\n\n" + text
	}
	p.tools = slices.Concat(p.tools, more.Components("additional_tools"))
	if f := more.Field("human_in_the_loop"); f != nil {
		p.human = more.Flag("human_in_the_loop")
	}
	return p
}

// baseAgent compiles an agent's prompt, tools and model. It also returns the names of the tools.
func (b *builder) baseAgent(p *resolvedAgent, node string) (*plan.Agent, map[string]bool) {
	a := &plan.Agent{Prompt: p.text, System: p.text, MaxCalls: agentCalls, MaxErrors: agentErrors}
	taken := map[string]bool{}
	for i, t := range p.tools {
		a.Tools = append(a.Tools, *b.tool(t, taken))
		b.addPosition(plan.ToolPath(node, i), t.At)
	}
	for _, f := range p.base.Components("flows") {
		b.addPosition(plan.ToolPath(node, len(a.Tools)), f.At)
		a.Tools = append(a.Tools, b.flowTool(f, taken))
	}
	b.toolboxes(p.base, a, taken)
	b.transforms(p.base, a)
	b.model(p.base.Component("llm_config"), a)
	return a, taken
}

// flowTool returns a flow as a tool of an agent: the flow's inputs are the arguments, its outputs the result.
func (b *builder) flowTool(c *model.Component, taken map[string]bool) plan.Tool {
	name := cmp.Or(c.Name, c.ID)
	t := plan.Tool{Name: name, As: unique(taken, toolName(name)), Description: c.Description}
	t.Connection = b.connect(c, func(c *model.Component) plan.Connection {
		return plan.Connection{ID: unique(b.ids, "flow:"+model.SafeID(name)), Name: name, Kind: plan.ConnectionAgent, Agent: b.subflowID(c)}
	})
	id := b.subflowID(c)
	b.rejectStores(c, id)
	t.ArgumentsSchema = objectOf(model.Merge(c.Inputs, b.flowRunInputs[id]))
	return t
}

// finish returns the tool by which an agent submits its outputs.
func finish(outputs []*model.Property, name string, person bool) *plan.Finish {
	return &plan.Finish{
		Name: name, Description: "Submit the result of the task, once you have all of it. This ends the task.",
		Schema: objectOf(outputs), Checked: true, Fit: true, Read: "literal", Free: person, Reminders: reminders,
		InvalidReply: "The submission was rejected: {error}. Submit the result again.",
		Reminder:     fmt.Sprintf("Nobody reads plain-text answers. Continue the task by calling tools, and end it by calling %s.", name),
		Failure:      "the agent never submitted its result",
	}
}

// toolboxes adds the tools of an agent's MCP servers: all of a server, or those that a filter selects.
func (b *builder) toolboxes(c *model.Component, a *plan.Agent, taken map[string]bool) {
	for _, box := range c.Components("toolboxes") {
		if box.Type.Acts() != "MCPToolBox" {
			continue
		}
		id, confirm, filter := b.connect(box.Component("client_transport"), b.server), box.Flag("requires_confirmation"), box.Field("tool_filter")
		if filter != nil {
			b.filtered(box, filter, a, taken, plan.Tool{Connection: id, Confirm: confirm})
			continue
		}
		if a.Toolboxes == nil {
			a.Toolboxes = &plan.Toolboxes{All: true}
		}
		if !slices.Contains(a.Toolboxes.Connections, id) {
			a.Toolboxes.Connections = append(a.Toolboxes.Connections, id)
		}
		if confirm && !slices.Contains(a.Toolboxes.Confirm, id) {
			a.Toolboxes.Confirm = append(a.Toolboxes.Confirm, id)
		}
	}
}

// filtered adds the tools that a toolbox's filter selects by name or by MCPToolSpec.
func (b *builder) filtered(box *model.Component, filter *model.Field, a *plan.Agent, taken map[string]bool, like plan.Tool) {
	specs := filter.Components
	for _, item := range filter.JSON.Items {
		t := like
		if item.Kind == source.String {
			t.Name = item.Text
		} else if len(specs) > 0 {
			spec := specs[0]
			specs = specs[1:]
			t.Name, t.Description, t.Alone, t.Confirm = cmp.Or(spec.Name, spec.ID), spec.Description, spec.Description != "", t.Confirm || spec.Flag("requires_confirmation")
			if len(spec.Inputs) > 0 {
				t.ArgumentsSchema = objectOf(spec.Inputs)
			}
		}
		if t.Name == "" {
			b.Errorf(item.Pos, "field-value", "use a tool name", "tool_filter of %s has an empty tool name", box)
			continue
		}
		t.As = unique(taken, toolName(t.Name))
		a.Tools = append(a.Tools, t)
	}
}

// model sets an agent's model and the parameters of its calls; URL and key come from the worker's settings.
func (b *builder) model(c *model.Component, a *plan.Agent) {
	provider, id := model.ProviderOf(c), c.Text("model_id")
	if c.Type.Acts() == "OciGenAiConfig" && strings.EqualFold(c.Text("provider"), "cohere") && !strings.HasPrefix(id, "cohere.") {
		// An OCID does not identify the vendor, and models of Cohere have a different format.
		id = "cohere/" + id
	}
	a.Model = provider + "/" + id
	if f := c.Field("url"); f != nil {
		b.Warnf(f.At, CodeModelURL, fmt.Sprintf("set providers.%s.base_url in the worker's configuration", provider),
			"the url of %s is ignored; the worker's configuration of provider %s applies", c, provider)
	}
	a.Params, a.Retry = b.params(c), b.retry(c, false)
}

// apiResponses is OpenAI's newer protocol, in [plan.APIs].
const apiResponses = "responses"

// apis maps the names of OpenAI's protocols in documents to the plan's. Without a name, the worker chooses.
var apis = map[string]string{"chat_completions": "chat", "responses": apiResponses, "openai_responses": apiResponses}

// params returns the default parameters of a model's calls; nil if there are none.
func (b *builder) params(c *model.Component) *plan.Params {
	members, p := c.JSON("default_generation_parameters").Members, &plan.Params{}
	if f := c.Field("api_type"); f != nil && f.IsSet() {
		p.API = apis[c.Text("api_type")]
	}
	if len(members) == 0 && p.API == "" {
		return nil
	}
	extra := map[string]json.RawMessage{}
	for _, m := range members {
		raw := m.Value.JSON()
		ok := true
		switch m.Key {
		case "max_tokens":
			ok = json.Unmarshal(raw, &p.MaxTokens) == nil && (p.MaxTokens > 0 || m.Value.Kind == source.Null)
		case "temperature":
			ok = json.Unmarshal(raw, &p.Temperature) == nil && inRange(p.Temperature, 2)
		case "top_p":
			ok = json.Unmarshal(raw, &p.TopP) == nil && inRange(p.TopP, 1)
		default:
			extra[m.Key] = raw
		}
		if !ok {
			b.Errorf(m.Value.Pos, "field-value", "use a value in range: max_tokens 1 or more, temperature 0 to 2, top_p 0 to 1", "%s of %s is %s", m.Key, c, m.Value.Describe())
		}
	}
	if len(extra) > 0 {
		p.Extra, _ = json.Marshal(extra) // cannot fail for valid JSON
	}
	return p
}

// inRange reports whether a number is absent or between 0 and limit.
func inRange(v *float64, limit float64) bool { return v == nil || *v >= 0 && *v <= limit }

// Default instructions for summaries.
const (
	conversationInstructions = "Please make a summary of this conversation. Include relevant information and keep it short. Your response will replace the messages, so just output the summary directly, no introduction needed."
	messageInstructions      = "Please make a summary of this message. Include relevant information and keep it short. Your response will replace the message, so just output the summary directly, no introduction needed."
)

// transforms sets how an agent's conversation is shortened; several of the same kind apply in order.
func (b *builder) transforms(c *model.Component, a *plan.Agent) {
	for _, t := range c.Components("transforms") {
		switch t.Type.Acts() {
		case "MessageSummarizationTransform":
			l := plan.Long{Characters: int(t.Number("max_message_size")), Summary: *b.summary(t, messageInstructions, "summarized_message_template")}
			if a.Long == nil {
				a.Long = &l
			} else {
				a.MoreLong = append(a.MoreLong, l)
			}
		case "ConversationSummarizationTransform":
			k := plan.Context{How: plan.ContextSummarise, Keep: int(t.Number("min_num_messages")),
				Summary: b.summary(t, conversationInstructions, "summarized_conversation_template")}
			if t.Field("max_num_characters") != nil {
				k.Characters = int(t.Number("max_num_characters"))
			} else {
				k.Messages = int(t.Number("max_num_messages"))
			}
			if a.Context == nil {
				a.Context = &k
			} else {
				a.MoreContexts = append(a.MoreContexts, k)
			}
		}
	}
}

func (b *builder) summary(t *model.Component, instructions, template string) *plan.Summary {
	var by plan.Agent
	b.model(t.Component("llm"), &by)
	s := &plan.Summary{Model: by.Model, Params: by.Params, Instructions: cmp.Or(t.Text("summarization_instructions"), instructions), Template: t.Text(template)}
	// Spaces around the name are optional.
	for _, form := range []string{"{{ summary }}", "{{summary }}", "{{ summary}}"} {
		s.Template = strings.ReplaceAll(s.Template, form, "{{summary}}")
	}
	if !strings.Contains(s.Template, "{{summary}}") {
		b.Errorf(t.FieldPos(template), "field-value", "add {{summary}} to it", "%s of %s does not contain the summary", template, t)
	}
	for _, name := range []string{"max_cache_size", "max_cache_lifetime"} {
		if f := t.Field(name); f != nil {
			b.Warnf(f.At, CodeNoEffect, "remove it", "%s of %s has no effect: summaries are stored with the run", name, t)
			break
		}
	}
	return s
}
