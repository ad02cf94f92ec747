package continuum

import "weft/specadapter/source"

// Codes beside those of the dialect's own V and L rules. README.md lists them.
const (
	CodeWrongType       = source.CodeWrongType
	CodeMissing         = source.CodeMissing
	CodeUnknown         = source.CodeUnknown
	CodeNoNodes         = "no-nodes"
	CodeBlankCondition  = "blank-condition"
	CodeDuplicateAgent  = "duplicate-agent"
	CodeDuplicateConn   = "duplicate-connection"
	CodeDuplicateTool   = "duplicate-tool"
	CodeConnectionType  = "connection-type"
	CodeConnectionURL   = "connection-url"
	CodeRootAgent       = "root-agent"
	CodeUnusedPayload   = "unused-payload"
	CodeExitTools       = "exit-tools"
	CodeTooManyElements = "too-many"
)

// expected reports a field that the schema requires and many documents leave out.
func (a *adaptation) expected(o *source.Fields, key, instead string) {
	if o.Get(key) == nil {
		a.Strictf(o.Pos(key), CodeMissing, instead, "%s has no %s", o.Name, key)
	}
}
