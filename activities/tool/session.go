package tool

import "weft/workflows/plan"

// SessionRef names the session of a server that has state of earlier calls. The zero value is none.
type SessionRef struct {
	// ID is the server's over streamable HTTP, else a random text of the worker that has the connection. Version is that of
	// the protocol.
	ID      string `json:"id"`
	Version string `json:"version,omitempty"`
}

// maxSessionID bounds what a server calls a session. A longer one is not continued by other workers.
const maxSessionID = 1 << 10

// at is the key of a session's entry in the pool, beside that of new sessions.
func (r *SessionRef) at(key string) string { return key + "\n" + r.ID }

// identity is the session of a server, none if it keeps no state.
func identity(s remote) SessionRef {
	if s, ok := s.(*session); ok && s.hasState() {
		return s.ref()
	}
	return SessionRef{}
}

// Holds reports whether this worker alone can go on with its sessions over a resolved connection: they end with a process, or
// with a connection, of its own. A nil Tools has none.
func (t *Tools) Holds(c plan.Connection) bool {
	if t == nil {
		return false
	}
	at, err := t.locate(c, "")
	return err == nil && (at.conn.Transport == TransportStdio || at.conn.Transport == TransportSSE)
}

func (s *session) ref() SessionRef {
	if s.at.conn.Transport != TransportHTTP {
		return SessionRef{ID: s.own}
	}
	t := s.mcpTransport.transport.(*rawHTTPTransport)
	v, _ := t.version.Load().(string)
	if id := t.GetSessionId(); len(id) <= maxSessionID {
		return SessionRef{ID: id, Version: v}
	}
	return SessionRef{}
}
