package blueprint

import (
	"weft/specadapter/shape"
	"weft/workflows/plan"
)

// headersType is the type of the headers of every request to a server.
var headersType = shape.Schema{"type": "object", "maxProperties": maxHeaders, "additionalProperties": shape.Schema{"type": []string{"string", "number", "boolean", "null"}}}

// times are timestamps that the framework's API adds.
var times = []shape.Field{
	{Name: "created_at", Type: shape.Any, Doc: "Creation time at the framework. It has no effect on a run."},
	{Name: "modified_at", Type: shape.Any, Doc: "Time of the last change at the framework. It has no effect on a run."},
}

var (
	agentShape = shape.Object{Doc: "An agent blueprint (" + fileAgent + ").", Fields: append([]shape.Field{
		{Name: "name", Type: shape.Text, Required: true, Doc: "Name of the agent and its folder: at most 60 letters, digits, _ and -."},
		{Name: "description", Type: shape.Text, Required: true, Doc: "What the agent does, for models that may start it."},
		{Name: "type", Type: shape.OneOf(typeAutonomous, typeProcedural), Doc: "autonomous: a model with a system prompt and tools. procedural: a program. Default: autonomous, or procedural with a command."},
		{Name: "script", Type: shape.Text, Doc: "Name of a folder in " + dirScripts + "/ whose script a procedural agent runs."},
		{Name: "command", Type: shape.Text, Doc: "Command line that a procedural agent runs, in a folder that the worker's operator trusts."},
		{Name: "runner_id", Type: shape.Any, Doc: "The framework's runner. It has no effect: any worker may run the agent."},
		{Name: "parameters_schema", Type: shape.JSONSchema, Doc: "JSON Schema of the run's inputs."},
		{Name: "output_schema", Type: shape.JSONSchema, Doc: "JSON Schema of the result. The model is asked to correct an answer that does not match."},
		{Name: "system_prompt", Type: shape.Text, Doc: "System prompt, instead of the file " + filePrompt + "."},
		{Name: "mcp_servers", Type: shape.Ref("servers"), Doc: "MCP servers, instead of the file " + fileMCP + "."},
		{Name: "skills", Type: stringList, Doc: "Skills of the framework's executors. They have no effect on a run."},
		{Name: "tags", Type: stringList, Doc: "Labels by which an orchestrator selects agents."},
		{Name: "capabilities", Type: stringList, Doc: "Names of folders in " + dirCapabilities + "/: each adds text, MCP servers or a script."},
		{Name: "demands", Type: shape.Ref("demands"), Doc: "Requirements on the runner. They have no effect: any worker may run the agent."},
		{Name: "hooks", Type: shape.Ref("hooks"), Doc: "Agents that run before and after each run."},
		{Name: "input_mode", Type: shape.OneOf(plan.InputsMerged, plan.InputsAuthoritative), Doc: "merged: a prompt is required in addition to parameters_schema. authoritative: parameters_schema alone."},
		{Name: "status", Type: shape.Any, Doc: "Status in the framework's API. It has no effect on a run."},
	}, times...)}
	demandsShape = shape.Object{Name: "demands", Doc: "Requirements on the runner.", Fields: []shape.Field{
		{Name: "hostname", Type: shape.Text, Doc: "Host name of the runner."},
		{Name: "project_dir", Type: shape.Text, Doc: "Working directory of the runner."},
		{Name: "executor_profile", Type: shape.Text, Doc: "Profile of the runner's executor."},
		{Name: "executor_type", Type: shape.Text, Doc: "Type of the runner's executor."},
		{Name: "tags", Type: stringList, Doc: "Tags of the runner."},
	}}
	hooksShape = shape.Object{Name: "hooks", Doc: "Agents that run before and after each run.", Fields: []shape.Field{
		{Name: onRunStart, Type: shape.Ref("hook"), Doc: "Runs before the run. It may change the inputs or block the run."},
		{Name: onRunFinish, Type: shape.Ref("hook"), Doc: "Runs after the run, with the result."},
	}}
	hookShape = shape.Object{Name: "hook", Doc: "An agent that runs before or after a run.", Fields: []shape.Field{
		{Name: "type", Type: shape.OneOf("agent"), Doc: "agent, the only type."},
		{Name: "agent_name", Type: shape.Text, Required: true, Doc: "Name of a folder in " + dirAgents + "/."},
		{Name: "on_error", Type: shape.OneOf("block", "continue"), Doc: "Whether a failure of the hook fails the run. Default: continue."},
		{Name: "timeout_seconds", Type: shape.Schema{"type": "integer", "minimum": 1, "maximum": maxHookSeconds}, Doc: "Timeout of the hook in seconds. Default: 300."},
	}}
	referenceShape = shape.Object{Name: "server_reference", Doc: "An MCP server of the registry, or a connection of the worker.", Fields: []shape.Field{
		{Name: "ref", Type: shape.Text, Required: true, Doc: "Name of a folder in " + dirServers + "/, id of a connection in weft.yaml, or orchestrator."},
		{Name: "config", Type: shape.Schema{"type": "object"}, Doc: "Values of the server's config_schema. They are sent as HTTP headers and may hold placeholders such as ${params.NAME}."},
	}}
	inlineShape = shape.Object{Name: "server_inline", Doc: "An inline MCP server, as in earlier versions of the framework.", Fields: []shape.Field{
		{Name: "type", Type: shape.OneOf("http", "sse", "stdio"), Doc: "Transport. stdio requires a connection of this name in weft.yaml."},
		{Name: "url", Type: shape.Text, Doc: "URL of the server."},
		{Name: "headers", Type: headersType, Doc: "Headers of every request."},
		{Name: "command", Type: shape.Text, Doc: "Program to start; it must be a connection of this name in weft.yaml."},
		{Name: "args", Type: shape.Any, Doc: "Arguments of the program."},
		{Name: "env", Type: shape.Any, Doc: "Environment of the program."},
	}}
	serverShape = shape.Object{Name: "server", Doc: "An entry of the registry of MCP servers (" + fileServer + ").", Fields: append([]shape.Field{
		{Name: "id", Type: shape.Any, Doc: "Id of the entry. The name of its folder takes precedence."},
		{Name: "name", Type: shape.Text, Doc: "Name of the server."},
		{Name: "description", Type: shape.Text, Doc: "What the server provides."},
		{Name: "url", Type: shape.Text, Required: true, Doc: "URL of the server. It may hold ${params.NAME} and ${scope.NAME}."},
		{Name: "config_schema", Type: shape.Schema{"type": "object", "maxProperties": maxHeaders, "additionalProperties": shape.Ref("config_field")}, Doc: "The headers that the server accepts, by name."},
		{Name: "default_config", Type: headersType, Doc: "Default values of headers."},
	}, times...)}
	configShape = shape.Object{Name: "config_field", Doc: "A header that a server accepts.", Fields: []shape.Field{
		{Name: "type", Type: shape.Any, Doc: "Type of the value; headers are strings."},
		{Name: "description", Type: shape.Any, Doc: "What the header does."},
		{Name: "required", Type: shape.Flag, Doc: "true: an agent or default_config must set it."},
		{Name: "sensitive", Type: shape.Flag, Doc: "true: the value is a secret and must not be in a file."},
		{Name: "default", Type: shape.Any, Doc: "No effect; default_config has the values."},
	}}
	scriptShape = shape.Object{Name: "script", Doc: "An entry of the registry of scripts (" + fileScript + ").", Fields: append([]shape.Field{
		{Name: "name", Type: shape.Text, Required: true, Doc: "Name of the script."},
		{Name: "description", Type: shape.Text, Required: true, Doc: "What the script does."},
		{Name: "script_file", Type: shape.Text, Required: true, Doc: "Path of its file, next to " + fileScript + "."},
		{Name: "parameters_schema", Type: shape.JSONSchema, Doc: "JSON Schema of its arguments."},
		{Name: "demands", Type: shape.Any, Doc: "Requirements on the runner. They have no effect on a run."},
	}, times...)}
	capabilityShape = shape.Object{Name: "capability", Doc: "An entry of the registry of capabilities (" + fileCapability + ").", Fields: append([]shape.Field{
		{Name: "name", Type: shape.Text, Required: true, Doc: "Name of the capability."},
		{Name: "description", Type: shape.Text, Required: true, Doc: "What the capability adds."},
		{Name: "type", Type: shape.OneOf("script", "mcp", "text"), Doc: "Parts of the capability. Default: the parts that exist."},
		{Name: "script", Type: shape.Text, Doc: "Name of a folder in " + dirScripts + "/."},
	}, times...)}

	stringList = shape.Schema{"type": "array", "items": shape.Text, "maxItems": maxListItems}
)

// Schema returns the JSON Schema of agent.json. Its definitions server, script and capability describe the registries' files.
func (Adapter) Schema() shape.Schema {
	out := shape.Document("Agent blueprint", &agentShape, &demandsShape, &hooksShape, &hookShape, &referenceShape, &inlineShape, &serverShape, &configShape, &scriptShape, &capabilityShape)
	out["$defs"].(shape.Schema)["servers"] = shape.Schema{"type": "object", "maxProperties": maxServers, "description": "MCP servers by name.",
		"additionalProperties": shape.Schema{"anyOf": []shape.Schema{shape.Ref("server_reference"), shape.Ref("server_inline")}}}
	return out
}
