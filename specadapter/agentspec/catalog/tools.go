package catalog

import "slices"

// isTool are the types that every tool also is.
var isTool = []string{"Tool", "ComponentWithIO"}

// confirmation is the field that requires a user's confirmation before each call of a tool.
var confirmation = FieldSpec{Name: "requires_confirmation", Kind: Flag, Default: "false", Since: V2542}

var toolTypes = []Type{
	{Name: "ServerTool", Is: isTool, IO: true,
		Doc: "A tool that the worker executes: a function, or one mapped in weft.yaml.", Fields: []FieldSpec{confirmation}},
	{Name: "ClientTool", Is: isTool, IO: true,
		Doc: "A tool that the caller of the run executes: the run waits for its result.", Fields: []FieldSpec{confirmation}},
	{Name: "RemoteTool", Is: isTool, IO: true, Fields: append([]FieldSpec{confirmation}, httpFields...), Doc: "A tool that makes an HTTP request."},
	{Name: "MCPTool", Is: isTool, IO: true, Doc: "A tool of an MCP server.",
		Fields: []FieldSpec{confirmation, {Name: "client_transport", Kind: One, Of: "ClientTransport", Required: true}}},
	{Name: "BuiltinTool", Is: isTool, IO: true, Since: V2542, Doc: "A tool that the worker has for a tool_type: a function, or one mapped in weft.yaml.",
		Fields: []FieldSpec{
			confirmation,
			{Name: "tool_type", Kind: Text, Required: true, Doc: "Type of the tool. A function of the worker has its name, or tools in weft.yaml maps it."},
			{Name: "configuration", Kind: Object, Doc: "Configuration of the tool in another runtime. It has no effect."},
			{Name: "executor_name", Kind: TextOrTexts, Doc: "Runtimes that have the tool."},
			{Name: "tool_version", Kind: Text, Doc: "Version of the tool."},
		}},
	{Name: "MCPToolBox", Is: []string{"ToolBox"}, Since: V2542, Doc: "The tools of an MCP server.",
		Fields: []FieldSpec{
			{Name: "client_transport", Kind: One, Of: "ClientTransport", Required: true},
			{Name: "tool_filter", Kind: Mixed, Of: "MCPToolSpec", Doc: "Tools of the server that the model may call: names or MCPToolSpecs. Default: all."},
			{Name: "requires_confirmation", Kind: Flag, Default: "false", Since: V2612},
		}},
	{Name: "MCPToolSpec", Is: []string{"ComponentWithIO"}, IO: true, Since: V2542,
		Doc: "A tool of a toolbox, with the inputs and description that the model sees.", Fields: []FieldSpec{confirmation}},
}

// isRemote are the types that every network transport also is.
var isRemote = []string{"RemoteTransport", "ClientTransport"}

// sessionParameters are the limits of a session with an MCP server.
var sessionParameters = FieldSpec{Name: "session_parameters", Kind: Plain, Fields: []FieldSpec{
	{Name: "read_timeout_seconds", Kind: Number, Default: "60", Doc: "Timeout of a call, in seconds."},
}}

// remoteFields are the fields of a network transport.
var remoteFields = []FieldSpec{
	sessionParameters,
	{Name: "url", Kind: Text, Required: true},
	{Name: "auth", Kind: One, Of: "AuthConfig", Since: V2612},
	{Name: "headers", Kind: TextMap},
	{Name: "sensitive_headers", Kind: Object, Sensitive: true, Since: V2542},
	retryPolicy,
}

// mtlsFields are the fields of a network transport with a client certificate.
var mtlsFields = slices.Concat(remoteFields, eachNamed(secretText, "key_file", "cert_file", "ca_file"))

var transportTypes = []Type{
	{Name: "StdioTransport", Is: []string{"ClientTransport"}, Doc: "An MCP server that is started as a command.",
		Fields: []FieldSpec{
			sessionParameters,
			{Name: "command", Kind: Text, Required: true, Doc: "Program, which the worker's operator must allow."},
			{Name: "args", Kind: Texts, Doc: "Arguments of the program."},
			{Name: "env", Kind: TextMap, Doc: "Environment of the program."},
			{Name: "cwd", Kind: Text, Doc: "Working directory of the program."},
		}},
	{Name: "SSETransport", Is: isRemote, Fields: remoteFields, Doc: "An MCP server over HTTP with server-sent events."},
	{Name: "SSEmTLSTransport", Is: append([]string{"SSETransport"}, isRemote...),
		Doc: "An MCP server over HTTP with server-sent events and a client certificate.", Fields: mtlsFields},
	{Name: "StreamableHTTPTransport", Is: isRemote, Fields: remoteFields, Doc: "An MCP server over streamable HTTP."},
	{Name: "StreamableHTTPmTLSTransport", Is: append([]string{"StreamableHTTPTransport"}, isRemote...),
		Doc: "An MCP server over streamable HTTP with a client certificate.", Fields: mtlsFields},
	{Name: "OAuthConfig", Is: []string{"AuthConfig"}, Since: V2612,
		Doc: "Signs in by OAuth. The worker's connection with the transport's name holds the login.",
		Fields: []FieldSpec{
			{Name: "issuer", Kind: Text, Doc: "URL of the OAuth server."},
			{Name: "endpoints", Kind: Object, Doc: "Endpoints of the OAuth server."},
			{Name: "client", Kind: One, Of: "OAuthClientConfig", Required: true, Doc: "The client."},
			{Name: "redirect_uri", Kind: Text, Required: true, Doc: "Redirect URI of the client."},
			{Name: "scopes", Kind: TextOrTexts, Doc: "Requested scopes."},
			{Name: "scope_policy", Kind: Text, Doc: "Scopes to request if none are set."},
			{Name: "pkce", Kind: Object, Doc: "Parameters of PKCE."},
			{Name: "resource", Kind: Text, Doc: "Resource that the token is for."},
		}},
	{Name: "OAuthClientConfig", Since: V2612, Doc: "A client of an OAuth server.",
		Fields: []FieldSpec{
			{Name: "type", Kind: Text, Required: true, Doc: "How the client is registered with the server."},
			{Name: "client_id", Kind: Text, Sensitive: true, Doc: "Id of the client."},
			{Name: "client_secret", Kind: Text, Sensitive: true, Doc: "Secret of the client."},
			{Name: "token_endpoint_auth_method", Kind: Text, Doc: "How the client authenticates at the token endpoint."},
			{Name: "client_id_metadata_url", Kind: Text, Sensitive: true, Doc: "URL of the client metadata."},
			{Name: "registration_endpoint", Kind: Text, Doc: "URL of the registration endpoint."},
		}},
}
