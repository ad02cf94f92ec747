package blueprint

import "weft/specadapter/source"

// Codes of the diagnostics. README.md lists them.
const (
	CodeWrongType    = source.CodeWrongType
	CodeMissing      = source.CodeMissing
	CodeUnknown      = source.CodeUnknown
	CodeName         = "name"
	CodeType         = "agent-type"
	CodeDisabled     = "disabled"
	CodeSchema       = "schema"
	CodeTwice        = "twice"
	CodeTooMany      = "too-many"
	CodeNoPrompt     = "no-prompt"
	CodeEncoding     = "encoding"
	CodeCapability   = "capability"
	CodeScript       = "script"
	CodeServer       = "mcp-server"
	CodeServerConfig = "mcp-config"
	CodeServerURL    = "mcp-url"
	CodeCommand      = "inline-command"
	CodeSecret       = source.CodeSecretInline
	CodeOlder        = "older-shape"
	CodeHook         = "hook"
	CodeMode         = "input-mode"
	CodePlaceholder  = "placeholder"
	CodeProgram      = "program"
	CodeNoEffect     = "no-effect"
	CodeNotStarted   = "not-started"
)
