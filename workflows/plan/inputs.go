package plan

import "encoding/json"

// Inputs declare what a run of a flow is given: a JSON object of parameters, from which the
// text for the flow is made.
//
// Sources: the blueprint dialect's parameters_schema.
type Inputs struct {
	// Schema is a JSON Schema (draft 7) of the parameters, in the author's key order. Absent:
	// a text "prompt" and nothing else.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Mode is [InputsMerged], [InputsAuthoritative], [InputsProcedural] or [InputsNamed].
	Mode string `json:"mode"`
	// Style is how errors name places: [StyleFramework] or [StyleDocumented].
	Style string `json:"style,omitempty"`
	// Placeholders reports whether the flow's texts hold placeholders, such as ${params.topic},
	// that a run's start replaces.
	Placeholders bool `json:"placeholders,omitempty"`
}

// The modes of [Inputs].
const (
	// InputsMerged wants "prompt" whatever the schema says; the other parameters stand before it.
	InputsMerged = "merged"
	// InputsAuthoritative takes the schema as it is written; all parameters stand together.
	InputsAuthoritative = "authoritative"
	// InputsProcedural is that of a program instead of a model: without a schema any object
	// will do, and there is no prompt.
	InputsProcedural = "procedural"
	// InputsNamed leaves the parameters as they are: they are the values of a flow with
	// [Values.Named]. The schema is the author's.
	InputsNamed = "named"
)

// The styles of [Inputs] and of an [Output].
const (
	// StyleFramework is that of the dialect's framework: $.tags.0 and properties/tags/type.
	StyleFramework = ""
	// StyleDocumented is that of the dialect's documentation: $.tags[0] and properties.tags.type,
	// and a property that is missing is named by the path.
	StyleDocumented = "documented"
)
