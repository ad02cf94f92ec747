package source

// Host is what an adapter may know about where a flow will run. The zero Host knows
// nothing.
type Host struct {
	// UnboundTools are the tools that the host has, or maps to a connection, by their name alone.
	UnboundTools map[string]bool
	// Connections are the ids of the host's own connections.
	Connections map[string]bool
	// Components are the documents with components that the document may refer to;
	// ComponentIDs name single ones of them. A dialect that takes none is never given any.
	Components   []Component
	ComponentIDs []ComponentID
	// Files are what lies around the document, for dialects whose flows have several files.
	Files []File
	// Starting reports whether the plan is to be run, so that what a start pins must be among Files.
	Starting bool
	// PassSecret, if set, is called with each secret in the document, once it is a plan. Without it
	// such a secret is an error.
	PassSecret func(InlineSecret)
}

// File is a file beside a document. Its name is a path with slashes, from the same place
// from which the document's name leads.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Component is a document with components, as text.
type Component struct{ Name, Text string }

// ComponentID reports whether the component under Key, in the document Name of
// [Host.Components], is what the document means by ID.
type ComponentID struct{ ID, Name, Key string }

// Traits are what documents of a dialect may have beyond a graph. An adapter that has a
// method Traits declares them; the others have none.
type Traits struct {
	// Inputs: flows declare inputs by name and type, and runs of them take params.
	Inputs bool
	// Components: documents refer to components that are in other documents.
	Components bool
	// Values: the input of a run is a typed value, which no text stands for.
	Values bool
	// Files: a flow is a folder, and what lies around its document belongs to it.
	Files bool
	// LastKeyWins: keys may be repeated, and the last one counts.
	LastKeyWins bool
	// Lenient: strings and keys of JSON may lack their quotes, see [ParseLenient].
	Lenient bool
}

// InlineSecret is a secret in a document, for the one worker that may know it. It must reach neither
// a plan nor a log.
type InlineSecret struct {
	// Ref is the name by which the plan knows the secret.
	Ref string `json:"ref"`
	// Value is the secret; File reports whether it may be the path of a file of it.
	Value string `json:"value"`
	File  bool   `json:"file,omitempty"`
	// Hosts are where it may be used. It is empty for what belongs to a provider of models.
	Hosts []string `json:"hosts,omitempty"`
	// Provider is the provider of models whose setting it is: [SettingKey] or [SettingAuthFile].
	Provider string `json:"provider,omitempty"`
	Setting  string `json:"setting,omitempty"`
}

// The settings of a provider of models that a document may contain.
const (
	SettingKey      = "key"
	SettingAuthFile = "auth_file"
)
