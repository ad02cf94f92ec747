package koog

import (
	"slices"
	"weft/specadapter/shape"
	"weft/workflows/plan/value"
)

var constantType = shape.Schema{"type": []string{"string", "number", "boolean"}}

var (
	documentShape = shape.Object{Doc: "A flow of the Koog agents-protocol: agents, and transitions between them.", Fields: []shape.Field{
		{Name: "id", Type: shape.Text, Required: true, Doc: "Id of the flow."},
		{Name: "version", Type: shape.Text, Doc: "The author's version of the flow. The protocol requires it."},
		{Name: "description", Type: shape.Text, Doc: "What the flow does."},
		{Name: "defaultModel", Type: shape.Text, Doc: "Default model of agents, as provider/model. The -model of a run takes precedence."},
		{Name: "tools", Type: shape.List(shape.Ref("tool")), Doc: "The MCP servers and the worker's tools that agents may use."},
		{Name: "agents", Type: shape.List(shape.Ref("agent")), Required: true, Doc: "The agents. Without transitions they run in this order."},
		{Name: "transitions", Type: shape.List(shape.Ref("transition")), Doc: "The edges between agents. The first that applies is taken; a run starts at \"from\" of the first transition."},
	}}
	toolShape = shape.Object{Name: "tool", Doc: "An MCP server or a tool of the worker.", Fields: []shape.Field{
		{Name: "name", Type: shape.Text, Required: true, Doc: "Name of the server or tool, unique in the flow."},
		{Name: "type", Type: shape.AnyCase("mcp", "local"), Required: true, Doc: "mcp: the tools of an MCP server. local: a tool of the worker."},
		{Name: "parameters", Type: shape.Schema{"type": "object"}, Required: true, Doc: "Location of the server or tool."},
	}, Rules: choice(byType("mcp", "parameters", shape.Schema{"anyOf": []shape.Schema{shape.Ref("remote_parameters"), shape.Ref("stdio_parameters")}}),
		byType("local", "parameters", shape.Ref("local_parameters")))}
	localShape = shape.Object{Name: "local_parameters", Doc: "Where a tool of the worker is defined. The worker looks it up by the tool's name.", Fields: []shape.Field{
		{Name: "path", Type: shape.Text, Doc: "File of the tool in Koog's own projects."},
		{Name: "fqn", Type: shape.Text, Doc: "Qualified name of the tool in Koog's own projects."},
	}, Rules: shape.Schema{"anyOf": []shape.Schema{{"required": []string{"path"}}, {"required": []string{"fqn"}}}}}
	remoteShape = shape.Object{Name: "remote_parameters", Doc: "How to connect to an MCP server by URL.", Fields: []shape.Field{
		{Name: "transport", Type: shape.AnyCase(transportSSE, transportHTTP, "streamable-http", "streamable_http"), Required: true, Doc: "sse, or http for streamable HTTP."},
		{Name: "url", Type: shape.Text, Required: true, Doc: "URL of the server. Credentials belong in weft.yaml."},
		{Name: "headers", Type: shape.Map, Doc: "Headers of every request. Secrets belong in weft.yaml."},
	}}
	stdioShape = shape.Object{Name: "stdio_parameters", Doc: "How to start an MCP server, if the worker's operator allows its command.", Fields: []shape.Field{
		{Name: "transport", Type: shape.AnyCase(transportStdio), Required: true, Doc: "stdio."},
		{Name: "command", Type: shape.Text, Required: true, Doc: "Program to start."},
		{Name: "args", Type: shape.List(shape.Text), Doc: "Arguments of the program."},
	}}
	agentShape = shape.Object{Name: "agent", Doc: "An agent: a step of the flow.", Fields: []shape.Field{
		{Name: "name", Type: shape.Text, Required: true, Doc: "Name of the agent, for transitions and parallel agents; not START, END or __finish__."},
		{Name: "type", Type: shape.AnyCase(agentKinds...), Required: true, Doc: "task: works until it calls finalize_task_result. verify: returns a verdict, with isCorrect and feedback. transform: selects a part of the value. parallel: runs other agents in parallel. react: alternates thoughts and tool calls, and ends with a plain answer."},
		{Name: "model", Type: shape.Text, Doc: "Model of the agent, as provider/model. Default: the run's -model, then defaultModel."},
		{Name: "runtime", Type: shape.OneOf("koog"), Doc: "koog, the only runtime."},
		{Name: "config", Type: shape.Ref("config"), Doc: "Parameters and limits of the agent's model calls."},
		{Name: "prompt", Type: shape.Ref("prompt"), Doc: "Prompts around the task."},
		{Name: "params", Type: shape.Schema{"type": "object"}, Doc: "What the agent should do, by its type."},
		{Name: "output", Type: shape.Ref("output"), Doc: "Format of the result."},
		{Name: draftInputName, Type: shape.Any, Doc: "Task of the agent in drafts of the protocol; use task in params."},
	}, Rules: choice(params(kindTask, "task_params"), params(kindVerify, "task_params"), params(kindReact, "react_params"),
		params(kindTransform, "transform_params"), params(kindParallel, "parallel_params"))}
	configShape = shape.Object{Name: "config", Doc: "Parameters and limits of an agent's model calls.", Fields: []shape.Field{
		{Name: "temperature", Type: shape.Between(0, 2), Doc: "Sampling temperature."},
		{Name: "maxIterations", Type: shape.Count, Doc: "Maximum number of model calls per visit of the agent. Default: 50."},
		{Name: "maxTokens", Type: shape.Count, Doc: "Maximum number of tokens of an answer."},
		{Name: "topP", Type: shape.Between(0, 1), Doc: "Nucleus sampling: the probability mass that tokens are sampled from."},
		{Name: "toolChoice", Type: shape.Schema{"anyOf": []shape.Schema{shape.AnyCase("auto", "none", "required"), {"type": "object"}}}, Doc: `"auto", "none", "required" or {"toolName": "NAME"}: which tools the model may or must call.`},
		{Name: "speculation", Type: shape.Any, Doc: "No effect."},
	}}
	promptShape = shape.Object{Name: "prompt", Doc: "Prompts around an agent's task.", Fields: []shape.Field{
		{Name: "system", Type: shape.Text, Doc: "System message of the agent."},
		{Name: "user", Type: shape.Text, Doc: "Text before the task, in the first message."},
	}}
	outputShape = shape.Object{Name: "output", Doc: "Format of an agent's result.", Fields: []shape.Field{
		{Name: "schema", Type: shape.Schema{"anyOf": []shape.Schema{shape.JSONSchema, shape.Text}}, Doc: "JSON Schema of the result, as an object or as a string."},
	}}
	taskShape = shape.Object{Name: "task_params", Doc: "What a task or verify agent should do.", Fields: []shape.Field{
		{Name: "task", Type: shape.Text, Doc: "What the agent should do."},
		{Name: "toolNames", Type: shape.List(shape.Text), Doc: "Names of the agent's tools. Default: all; []: none."},
	}}
	reactShape = shape.Object{Name: "react_params", Doc: "What a react agent should do.", Fields: append(slices.Clip(taskShape.Fields),
		shape.Field{Name: "reasoningInterval", Type: shape.Schema{"anyOf": []shape.Schema{shape.Count, {"type": "string", "pattern": "^[1-9][0-9]*$"}}}, Doc: "Number of tool results between thoughts. Default: 1."})}
	transformShape = shape.Object{Name: "transform_params", Doc: "What a transform agent does.", Fields: []shape.Field{
		{Name: "transformations", Type: shape.Schema{"type": "array", "maxItems": 1, "items": shape.Ref("selection")}, Doc: "At most one selection. Default or []: the whole value."},
	}}
	selectionShape = shape.Object{Name: "selection", Doc: "A part of the value that is passed along the transitions.", Fields: []shape.Field{
		{Name: "value", Type: shape.Text, Required: true, Doc: "The part, such as input.feedback; output. means the same."},
	}}
	parallelShape = shape.Object{Name: "parallel_params", Doc: "Which agents run in parallel.", Fields: []shape.Field{
		{Name: "agents", Type: shape.Schema{"type": "array", "minItems": 1, "items": shape.Text}, Required: true, Doc: "Names of the agents, which all receive the same value."},
		{Name: "merge", Type: shape.Ref("merge"), Doc: "Which result is passed on. Default: the list of all, as {name, output}."},
	}}
	mergeShape = shape.Object{Name: "merge", Doc: "The result that is passed on if the condition holds; otherwise the run fails.", Fields: []shape.Field{
		{Name: "variable", Type: shape.Text, Required: true, Doc: "results.INDEX.output, results.INDEX.input or results.INDEX.name, from 0."},
		{Name: "operation", Type: shape.AnyCase(value.Operations...), Required: true, Doc: "Operator."},
		{Name: "value", Type: shape.Schema{"type": []string{"string", "number", "boolean", "object"}}, Required: true, Doc: `Value to compare with; it may include its type: {"type": "int", "data": 5}.`},
	}}
	transitionShape = shape.Object{Name: "transition", Doc: "An edge from one agent to another.", Fields: []shape.Field{
		{Name: "from", Type: shape.Text, Required: true, Doc: "Name of the source agent."},
		{Name: "to", Type: shape.Text, Required: true, Doc: "Name of the target agent, or __finish__."},
		{Name: "condition", Type: shape.Ref("condition"), Doc: "When it is taken. Default: always."},
		{Name: "transformation", Type: shape.Ref("selection"), Doc: "Part of the value that is passed on. Default: all of it."},
	}}
	conditionShape = shape.Object{Name: "condition", Doc: "A comparison of the value that an agent returns.", Fields: []shape.Field{
		{Name: "variable", Type: shape.Text, Required: true, Doc: "Variable: input.success, input.feedback, input.data (the value itself) or a field of an object; output. means the same."},
		{Name: "operation", Type: shape.AnyCase(value.Operations...), Required: true, Doc: "Operator. Numbers compare by value; string equality is case-sensitive."},
		{Name: "value", Type: constantType, Required: true, Doc: "Value to compare with: 42 is an integer, 42.0 a double, \"42\" a string."},
	}}
)

// byType returns a rule that applies a schema to a field if the object has the given type.
func byType(kind, field string, schema shape.Schema) shape.Schema {
	is := shape.AnyCase(kind)["anyOf"].([]shape.Schema)[1]
	return shape.Schema{
		"if":   shape.Schema{"properties": shape.Schema{"type": is}, "required": []string{"type"}},
		"then": shape.Schema{"properties": shape.Schema{field: schema}},
	}
}

func params(kind, ref string) shape.Schema {
	return byType(kind, "params", shape.Nullable(shape.Ref(ref)))
}

func choice(rules ...shape.Schema) shape.Schema { return shape.Schema{"allOf": rules} }

// Schema returns the JSON Schema of a flow in the profile default.
func (Adapter) Schema() shape.Schema {
	return shape.Document("Koog agents-protocol flow", &documentShape, &toolShape, &localShape, &remoteShape, &stdioShape, &agentShape, &configShape, &promptShape, &outputShape,
		&taskShape, &reactShape, &transformShape, &selectionShape, &parallelShape, &mergeShape, &transitionShape, &conditionShape)
}
