package continuum

import "weft/specadapter/shape"

// graphFields are the fields of a graph, alone or in a bundle.
var graphFields = []shape.Field{
	{Name: "id", Type: shape.Text, Doc: "Id of the graph, a UUID. Connections of type 2 name it as their agent_id."},
	{Name: "name", Type: shape.Text, Doc: "Name of the flow. Missing, it is the id or the file's name."},
	{Name: "description", Type: shape.Text, Doc: "What the flow does. A model that may call it as a sub-agent reads this."},
	{Name: "generation_prompt", Type: shape.Text, Doc: "The prompt of which the graph was made. It has no effect on a run."},
	{Name: "response_format", Type: shape.Ref("response_format"), Doc: "Format of the result, which exit nodes give. Missing: Markdown."},
	{Name: "nodes", Type: shape.List(shape.Ref("node")), Doc: "The steps of the flow: agents that share the conversation and the state."},
	{Name: "edges", Type: shape.List(shape.Ref("edge")), Doc: "The edges between nodes. All that apply are taken, in parallel."},
	{Name: "execution_plan", Type: shape.Text, Doc: "The graph as a Mermaid diagram. It has no effect on a run; warnings tell where it differs from the edges."},
}

var (
	bundleShape = shape.Object{Fields: []shape.Field{
		{Name: "data_connections", Type: shape.List(shape.Ref("connection")), Doc: "The MCP servers and sub-agents to which tools are bound by their ids."},
		{Name: "agents", Type: shape.List(shape.Ref("graph")), Doc: "Graphs of a bundle. A run starts at the one that no connection names."},
	}}
	documentShape = shape.Object{Doc: "An agent graph, or a bundle of connections and graphs.", Fields: append(graphFields[:len(graphFields):len(graphFields)], bundleShape.Fields...),
		Rules: shape.Schema{"anyOf": []shape.Schema{{"required": []string{"nodes", "edges"}}, {"required": []string{"agents"}}}}}
	graphShape = shape.Object{Name: "graph", Doc: "An agent graph.", Fields: graphFields, Rules: shape.Schema{"required": []string{"nodes", "edges"}}}
	nodeShape  = shape.Object{Name: "node", Doc: "A step of the graph: an agent with a prompt and tools.", Fields: []shape.Field{
		{Name: "id", Type: shape.Text, Required: true, Doc: "Id by which edges name the node; not START or END."},
		{Name: "name", Type: shape.Text, Required: true, Doc: "Name of the step. Its answer stands in the conversation under it."},
		{Name: "prompt", Type: shape.Text, Required: true, Doc: "What the agent is to do: a part of its system message."},
		{Name: "tools", Type: shape.List(shape.Ref("tool")), Doc: "The tools that the agent may call, beside the system tools that every node has."},
		{Name: "max_iterations", Type: shape.Count, Doc: "Most model calls of one execution of the node. Missing: 10."},
		{Name: "is_exit_node", Type: shape.Flag, Doc: "true: the node gives the flow's result, in the response format."},
		{Name: "defer", Type: shape.Flag, Doc: "true: the node waits until all branches that may come to it have arrived."},
	}}
	edgeShape = shape.Object{Name: "edge", Doc: "An edge from one node to another.", Fields: []shape.Field{
		{Name: "id", Type: shape.Text, Required: true, Doc: "Id of the edge, unique in the graph."},
		{Name: "source", Type: shape.Text, Required: true, Doc: "Id of the node that it leaves, or START."},
		{Name: "target", Type: shape.Text, Required: true, Doc: "Id of the node that it enters, or END."},
		{Name: "condition_prompt", Type: shape.Text, Doc: "A question that a model answers with yes or no: the edge is taken on yes. Missing: always."},
	}}
	toolShape = shape.Object{Name: "tool", Doc: "A tool that a node may call.", Fields: []shape.Field{
		{Name: "name", Type: shape.Text, Required: true, Doc: "Name of the tool at its connection, or of a tool of the worker's own."},
		{Name: "description", Type: shape.Text, Doc: "What the tool does, for the model. Missing: what its server says."},
		{Name: "data_connection_id", Type: shape.Text, Doc: "Id of the connection that has the tool."},
	}}
	formatShape = shape.Object{Name: "response_format", Doc: "Format of the flow's result.", Fields: []shape.Field{
		{Name: "type", Type: shape.Schema{"enum": []int{1, 2}}, Required: true, Doc: "1: Markdown. 2: JSON as the payload says."},
		{Name: "payload", Type: shape.Ref("payload"), Doc: "What the JSON must be; null for Markdown."},
	}}
	payloadShape = shape.Object{Name: "payload", Doc: "What a result in JSON must be.", Fields: []shape.Field{
		{Name: "format", Type: shape.Schema{"type": "string", "pattern": `^\s*[jJ][sS][oO][nN]\s*$`}, Doc: `"JSON", the only format.`},
		{Name: "output_schema", Type: shape.JSONSchema, Doc: "JSON Schema of the result. An answer that differs is sent back to the model once."},
		{Name: "rules", Type: shape.Text, Doc: "Rules for the result in words, for the model."},
	}}
	connectionShape = shape.Object{Name: "connection", Doc: "An MCP server or a sub-agent.", Fields: []shape.Field{
		{Name: "id", Type: shape.Text, Required: true, Doc: "Id by which tools name the connection, a UUID."},
		{Name: "type", Type: shape.Schema{"enum": []any{1, 2, nil}}, Doc: "1: an MCP server. 2: a sub-agent. Missing, with a url: an MCP server."},
		{Name: "name", Type: shape.Text, Doc: "Name of the connection. It comes before names of tools that two connections share."},
		{Name: "description", Type: shape.Text, Doc: "What the connection is for."},
		{Name: "config", Type: shape.Ref("config"), Doc: "Address of the server, or id of the agent."},
	}}
	configShape = shape.Object{Name: "config", Doc: "Where a connection leads.", Fields: []shape.Field{
		{Name: "url", Type: shape.Text, Doc: "URL of an MCP server. Credentials belong into weft.yaml."},
		{Name: "agent_id", Type: shape.Text, Doc: "Id of the graph of the bundle that is the sub-agent."},
	}}
)

// Schema is the JSON Schema of a graph or bundle.
func (Adapter) Schema() shape.Schema {
	return shape.Document("Continuum agent graph", &documentShape, &graphShape, &nodeShape, &edgeShape, &toolShape, &formatShape, &payloadShape, &connectionShape, &configShape)
}
