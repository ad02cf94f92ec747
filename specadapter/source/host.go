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
