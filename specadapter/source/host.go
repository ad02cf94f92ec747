package source

// Host describes where a flow will run. The zero Host has no tools, connections, components
// or files.
type Host struct {
	// UnboundTools are the names of tools that the host implements or maps to a connection by name alone.
	UnboundTools map[string]bool
	// Connections are the ids of the connections in the host's settings.
	Connections map[string]bool
	// Components are documents whose components the document may refer to; ComponentIDs
	// identify single ones of them. Both are empty for a dialect without components.
	Components   []Component
	ComponentIDs []ComponentID
	// Files are the files around the document, for dialects whose flows have several files.
	Files []File
	// Starting reports whether the plan will be run, so that Files must contain all files that a start needs.
	Starting bool
	// PassSecret, if set, is called with each secret in the document after it has been compiled. If nil,
	// such a secret is an error.
	PassSecret func(InlineSecret)
}

// File is a file of the same flow as a document. Its name is a slash-separated path,
// relative to the same directory as the document's name.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Component is a document that contains components.
type Component struct{ Name, Text string }

// ComponentID states that the document's reference ID means the component Key of the document
// Name in [Host.Components].
type ComponentID struct{ ID, Name, Key string }

// Traits are the optional features of a dialect. An adapter declares them by a method
// Traits; without it, the dialect has none.
type Traits struct {
	// Inputs: flows declare inputs by name and type, and runs accept params.
	Inputs bool
	// Components: documents may refer to components in other documents.
	Components bool
	// Values: the input of a run is a typed value rather than text.
	Values bool
	// Files: a flow is a folder, and the files around its main document belong to it.
	Files bool
	// LastKeyWins: keys may be duplicated; the last one takes effect.
	LastKeyWins bool
	// Lenient: strings and keys in JSON may be unquoted, see [ParseLenient].
	Lenient bool
}

// InlineSecret is a secret in a document, for the one worker that may use it. It must not appear
// in a plan or a log.
type InlineSecret struct {
	// Ref is the name by which the plan refers to the secret.
	Ref string `json:"ref"`
	// Value is the secret. File reports whether Value may be the path of a file that contains the secret.
	Value string `json:"value"`
	File  bool   `json:"file,omitempty"`
	// Hosts are the hosts to which it may be sent; empty for a secret of a model provider.
	Hosts []string `json:"hosts,omitempty"`
	// Provider is the model provider that the secret configures; Setting is [SettingKey] or [SettingAuthFile].
	Provider string `json:"provider,omitempty"`
	Setting  string `json:"setting,omitempty"`
}

// Settings of a model provider that a document may contain.
const (
	SettingKey      = "key"
	SettingAuthFile = "auth_file"
)
