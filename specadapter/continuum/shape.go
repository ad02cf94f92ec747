package continuum

import "weft/specadapter/shape"

// graphFields are the fields of a graph, at the top level or in a bundle.
var graphFields = []shape.Field{
	{Name: "id", Type: shape.Text, Doc: "Id of the graph, a UUID. Connections of type 2 refer to it by agent_id."},
	{Name: "name", Type: shape.Text, Doc: "Name of the flow. Default: the id or the file name."},
	{Name: "description", Type: shape.Text, Doc: "What the flow does, for models that may call it as a sub-agent."},
	{Name: "generation_prompt", Type: shape.Text, Doc: "The prompt that generated the graph. It has no effect on a run."},
	{Name: "response_format", Type: shape.Ref("response_format"), Doc: "Format of the result, which exit nodes produce. Default: Markdown."},
	{Name: "nodes", Type: shape.List(shape.Ref("node")), Doc: "The steps of the flow: agents that share the conversation and the state."},
	{Name: "edges", Type: shape.List(shape.Ref("edge")), Doc: "The edges between nodes. All that apply are taken in parallel."},
	{Name: "execution_plan", Type: shape.Text, Doc: "The graph as a Mermaid diagram. It has no effect on a run; warnings report differences from the edges."},
}

var (
	bundleShape = shape.Object{Fields: []shape.Field{
		{Name: "data_connections", Type: shape.List(shape.Ref("connection")), Doc: "The MCP servers and sub-agents that tools are bound to."},
		{Name: "agents", Type: shape.List(shape.Ref("graph")), Doc: "Graphs of a bundle. A run starts at the one that no connection refers to."},
	}}
	documentShape = shape.Object{Doc: "An agent graph, or a bundle of connections and graphs.", Fields: append(graphFields[:len(graphFields):len(graphFields)], bundleShape.Fields...),
		Rules: shape.Schema{"anyOf": []shape.Schema{{"required": []string{"nodes", "edges"}}, {"required": []string{"agents"}}}}}
	graphShape = shape.Object{Name: "graph", Doc: "An agent graph.", Fields: graphFields, Rules: shape.Schema{"required": []string{"nodes", "edges"}}}
	nodeShape  = shape.Object{Name: "node", Doc: "A step of the graph: an agent with a prompt and tools.", Fields: []shape.Field{
		{Name: "id", Type: shape.Text, Required: true, Doc: "Id of the node, for edges; not START or END."},
		{Name: "name", Type: shape.Text, Required: true, Doc: "Name of the step, and of its answers in the conversation."},
		{Name: "prompt", Type: shape.Text, Required: true, Doc: "What the agent should do; part of its system message."},
		{Name: "tools", Type: shape.List(shape.Ref("tool")), Doc: "The tools that the agent may call, in addition to the system tools of every node."},
		{Name: "max_iterations", Type: shape.Count, Doc: "Maximum number of tool calls per execution of the node. Default: 10."},
		{Name: "is_exit_node", Type: shape.Flag, Doc: "true: the node produces the flow's result, in the response format."},
		{Name: "defer", Type: shape.Flag, Doc: "true: the node waits for all branches that may reach it."},
	}}
	edgeShape = shape.Object{Name: "edge", Doc: "An edge from one node to another.", Fields: []shape.Field{
		{Name: "id", Type: shape.Text, Required: true, Doc: "Id of the edge, unique in the graph."},
		{Name: "source", Type: shape.Text, Required: true, Doc: "Id of the source node, or START."},
		{Name: "target", Type: shape.Text, Required: true, Doc: "Id of the target node, or END."},
		{Name: "condition_prompt", Type: shape.Text, Doc: "A question that a model answers with yes or no: the edge is taken on yes. Default: always."},
	}}
	toolShape = shape.Object{Name: "tool", Doc: "A tool that a node may call.", Fields: []shape.Field{
		{Name: "name", Type: shape.Text, Required: true, Doc: "Name of the tool at its connection, or of a tool of the worker."},
		{Name: "description", Type: shape.Text, Doc: "What the tool does, for the model. Default: the server's description."},
		{Name: "data_connection_id", Type: shape.Text, Doc: "Id of the connection that has the tool."},
	}}
	formatShape = shape.Object{Name: "response_format", Doc: "Format of the flow's result.", Fields: []shape.Field{
		{Name: "type", Type: shape.Schema{"enum": []int{1, 2}}, Required: true, Doc: "1: Markdown. 2: JSON as defined by payload."},
		{Name: "payload", Type: shape.Ref("payload"), Doc: "Definition of the JSON; null for Markdown."},
	}}
	payloadShape = shape.Object{Name: "payload", Doc: "Definition of a JSON result.", Fields: []shape.Field{
		{Name: "format", Type: shape.Schema{"type": "string", "pattern": `^\s*[jJ][sS][oO][nN]\s*$`}, Doc: `"JSON", the only format.`},
		{Name: "output_schema", Type: shape.JSONSchema, Doc: "JSON Schema of the result. The model is asked once to correct an answer that does not match."},
		{Name: "rules", Type: shape.Text, Doc: "Rules for the result, for the model."},
	}}
	connectionShape = shape.Object{Name: "connection", Doc: "An MCP server or a sub-agent.", Fields: []shape.Field{
		{Name: "id", Type: shape.Text, Required: true, Doc: "Id of the connection, a UUID, for tools."},
		{Name: "type", Type: shape.Schema{"enum": []any{1, 2, nil}}, Doc: "1: an MCP server. 2: a sub-agent. Default if there is a url: an MCP server."},
		{Name: "name", Type: shape.Text, Doc: "Name of the connection. It prefixes tool names that two connections share."},
		{Name: "description", Type: shape.Text, Doc: "What the connection is for."},
		{Name: "config", Type: shape.Ref("config"), Doc: "URL of the server, or id of the agent."},
	}}
	configShape = shape.Object{Name: "config", Doc: "Target of a connection.", Fields: []shape.Field{
		{Name: "url", Type: shape.Text, Doc: "URL of an MCP server. Credentials belong in weft.yaml."},
		{Name: "agent_id", Type: shape.Text, Doc: "Id of the bundle's graph that is the sub-agent."},
	}}
)

// Schema returns the JSON Schema of a graph or bundle.
func (Adapter) Schema() shape.Schema {
	return shape.Document("Continuum agent graph", &documentShape, &graphShape, &nodeShape, &edgeShape, &toolShape, &formatShape, &payloadShape, &connectionShape, &configShape)
}
