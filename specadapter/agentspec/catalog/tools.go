package catalog

import "slices"

// isTool are the types that every tool can stand for.
var isTool = []string{"Tool", "ComponentWithIO"}

// confirmation asks a person before a tool is called.
var confirmation = FieldSpec{Name: "requires_confirmation", Kind: Flag, Default: "false", Since: V2542}

var toolTypes = []Type{
	{Name: "ServerTool", Is: isTool, IO: true, Fields: []FieldSpec{confirmation}},
	{Name: "ClientTool", Is: isTool, IO: true, Fields: []FieldSpec{confirmation}},
	{Name: "RemoteTool", Is: isTool, IO: true, Fields: append([]FieldSpec{confirmation}, httpFields...)},
	{Name: "MCPTool", Is: isTool, IO: true,
		Fields: []FieldSpec{confirmation, {Name: "client_transport", Kind: One, Of: "ClientTransport", Required: true}}},
	{Name: "BuiltinTool", Is: isTool, IO: true, Since: V2542,
		Fields: []FieldSpec{
			confirmation,
			{Name: "tool_type", Kind: Text, Required: true},
			{Name: "configuration", Kind: Object},
			{Name: "executor_name", Kind: TextOrTexts},
			{Name: "tool_version", Kind: Text},
		}},
	{Name: "MCPToolBox", Is: []string{"ToolBox"}, Since: V2542,
		Fields: []FieldSpec{
			{Name: "client_transport", Kind: One, Of: "ClientTransport", Required: true},
			{Name: "tool_filter", Kind: Mixed, Of: "MCPToolSpec"},
			{Name: "requires_confirmation", Kind: Flag, Default: "false", Since: V2612},
		}},
	{Name: "MCPToolSpec", Is: []string{"ComponentWithIO"}, IO: true, Since: V2542, Fields: []FieldSpec{confirmation}},
}

// isRemote are the types that a transport over the network can stand for.
var isRemote = []string{"RemoteTransport", "ClientTransport"}

// sessionParameters bound a session with an MCP server.
var sessionParameters = FieldSpec{Name: "session_parameters", Kind: Plain, Fields: []FieldSpec{
	{Name: "read_timeout_seconds", Kind: Number, Default: "60"},
}}

// remoteFields are those of a transport over the network.
var remoteFields = []FieldSpec{
	sessionParameters,
	{Name: "url", Kind: Text, Required: true},
	{Name: "auth", Kind: One, Of: "AuthConfig", Since: V2612},
	{Name: "headers", Kind: TextMap},
	{Name: "sensitive_headers", Kind: Object, Sensitive: true, Since: V2542},
	retryPolicy,
}

// mtlsFields are those of a transport that shows a certificate.
var mtlsFields = slices.Concat(remoteFields, eachNamed(secretText, "key_file", "cert_file", "ca_file"))

var transportTypes = []Type{
	{Name: "StdioTransport", Is: []string{"ClientTransport"},
		Fields: []FieldSpec{
			sessionParameters,
			{Name: "command", Kind: Text, Required: true},
			{Name: "args", Kind: Texts},
			{Name: "env", Kind: TextMap},
			{Name: "cwd", Kind: Text},
		}},
	{Name: "SSETransport", Is: isRemote, Fields: remoteFields},
	{Name: "SSEmTLSTransport", Is: append([]string{"SSETransport"}, isRemote...), Fields: mtlsFields},
	{Name: "StreamableHTTPTransport", Is: isRemote, Fields: remoteFields},
	{Name: "StreamableHTTPmTLSTransport", Is: append([]string{"StreamableHTTPTransport"}, isRemote...), Fields: mtlsFields},
	{Name: "OAuthConfig", Is: []string{"AuthConfig"}, Since: V2612,
		Fields: []FieldSpec{
			{Name: "issuer", Kind: Text},
			{Name: "endpoints", Kind: Object},
			{Name: "client", Kind: One, Of: "OAuthClientConfig", Required: true},
			{Name: "redirect_uri", Kind: Text, Required: true},
			{Name: "scopes", Kind: TextOrTexts},
			{Name: "scope_policy", Kind: Text},
			{Name: "pkce", Kind: Object},
			{Name: "resource", Kind: Text},
		}},
	{Name: "OAuthClientConfig", Since: V2612,
		Fields: []FieldSpec{
			{Name: "type", Kind: Text, Required: true},
			{Name: "client_id", Kind: Text, Sensitive: true},
			{Name: "client_secret", Kind: Text, Sensitive: true},
			{Name: "token_endpoint_auth_method", Kind: Text},
			{Name: "client_id_metadata_url", Kind: Text, Sensitive: true},
			{Name: "registration_endpoint", Kind: Text},
		}},
}
