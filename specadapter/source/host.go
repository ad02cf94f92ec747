package source

// Host is what an adapter may know about where a flow will run. The zero Host knows
// nothing.
type Host struct {
	// UnboundTools are the tools that the host has, or maps to a connection, by their name alone.
	UnboundTools map[string]bool
	// Connections are the ids of the host's own connections.
	Connections map[string]bool
}
