package tool

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

// ref names the session.
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
