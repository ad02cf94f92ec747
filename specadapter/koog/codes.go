package koog

import (
	"encoding/json"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// Codes of the diagnostics; README.md says what they mean.
const (
	CodeWrongType    = source.CodeWrongType
	CodeMissing      = source.CodeMissing
	CodeUnknown      = source.CodeUnknown
	CodeNoAgents     = "no-agents"
	CodeTooMany      = "too-many"
	CodeDuplicate    = "duplicate-name"
	CodeName         = "agent-name"
	CodeType         = "agent-type"
	CodeRuntime      = "unknown-runtime"
	CodeModel        = "model"
	CodeConfig       = "config"
	CodeNoEffect     = "no-effect"
	CodeTransform    = "transformation"
	CodeParallel     = "parallel"
	CodeTool         = "tool"
	CodeUnknownTool  = "unknown-tool"
	CodeSecret       = "secret-in-flow"
	CodeCommand      = "command"
	CodeUnknownAgent = "unknown-agent"
	CodeVariable     = "condition-variable"
	CodeOperation    = "unknown-operation"
	CodeValue        = "condition-value"
	CodeNever        = "never-holds"
	CodeAlways       = "always-holds"
	CodeShadowed     = "shadowed"
	CodeNotExhausted = "not-exhaustive"
	CodeUnreachable  = "unreachable-agent"
	CodeNoFinish     = "finish-unreachable"
)

// nullable are the fields that the published code reads as absent where they are null.
var nullable = []string{"defaultModel", "model", "runtime", "config", "prompt", "params", "output", "user", "condition",
	"temperature", "topP", "maxTokens", "maxIterations", "toolChoice", "speculation", "task", "transformation"}

// reader returns a reader for a mode: scalars may stand for strings, and null for absent fields.
func reader(m mode) *source.Reader {
	r := source.NewReader()
	r.Group, r.Scalars = true, map[mode]source.Scalars{meant: source.ScalarsWarned, seed: source.ScalarsTaken, later: source.ScalarsRefused}[m]
	r.KeepsNull = func(key string) bool { return m != meant && !slices.Contains(nullable, key) }
	return r
}

// numeric returns a field's value; a number in quotes is that number, as in the published code.
func (a *adaptation) numeric(o *source.Fields, key string) *source.Value {
	v := o.Get(key)
	if v == nil || v.Kind != source.String || !json.Valid([]byte(v.Text)) || strings.Trim(v.Text, "0123456789+-.eE") != "" {
		return v
	}
	if a.mode == meant {
		a.Warnf(v.Pos, CodeWrongType, source.HowToWrite[source.Number], "%s of %s is %s, want a number; it is converted", key, o.Name, v.Describe())
	}
	return &source.Value{Kind: source.Number, Pos: v.Pos, Text: v.Text}
}
