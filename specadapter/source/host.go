package source

// Host is what an adapter may know about where a flow will run. The zero Host knows
// nothing.
type Host struct {
	// UnboundTools are the tools that the host has, or maps to a connection, by their name alone.
	UnboundTools map[string]bool
	// Connections are the ids of the host's own connections.
	Connections map[string]bool
	// Files are what lies around the document, for dialects whose flows have several files.
	Files []File
}

// File is a file beside a document. Its name is a path with slashes, from the same place
// from which the document's name leads.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}
