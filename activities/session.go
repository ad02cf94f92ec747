package activities

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/workflows/plan"
)

// Anyone who knows a session id can use the session. History has it encrypted, for the runs of one tree only.

// sealSession encrypts a session of a connection for later calls of the run. It returns "" if there is no session or no key.
func (a *Activities) sealSession(ctx context.Context, connection string, s tool.SessionRef) string {
	g := granted(ctx)
	if s.ID == "" || g == nil || len(a.deps.Keys) == 0 {
		return ""
	}
	raw, _ := json.Marshal(s) // strings only
	box := sessionCipher(a.deps.Keys[0]).Seal(nil, nil, raw, sessionOf(g, connection))
	return a.deps.Keys[0].ID + ":" + base64.RawStdEncoding.EncodeToString(box)
}

// queueOf returns the task queue of this worker if no other worker can continue the connection's session, else "".
func (a *Activities) queueOf(c plan.Connection) string {
	if !a.deps.Tools.OwnsSessions(c) {
		return ""
	}
	return a.deps.Queue
}

// openSession decrypts a session that [Activities.sealSession] encrypted. One of another run, connection or key counts as lost.
func (a *Activities) openSession(ctx context.Context, connection, sealed string) tool.SessionRef {
	g := granted(ctx)
	if sealed == "" || g == nil {
		return tool.SessionRef{}
	}
	id, text, _ := strings.Cut(sealed, ":")
	i := slices.IndexFunc(a.deps.Keys, func(k contract.SealKey) bool { return k.ID == id })
	raw, err := base64.RawStdEncoding.DecodeString(text)
	lost := tool.SessionRef{ID: "unknown"}
	if i < 0 || err != nil {
		return lost
	}
	raw, err = sessionCipher(a.deps.Keys[i]).Open(nil, nil, raw, sessionOf(g, connection))
	var out tool.SessionRef
	if err != nil || json.Unmarshal(raw, &out) != nil {
		return lost
	}
	return out
}

// sessionOf returns the additional data that binds a session to its tree of runs and its connection.
func sessionOf(g *contract.Grant, connection string) []byte {
	raw, _ := json.Marshal([]any{g.Root, g.Principal, connection}) // strings only
	return raw
}

func sessionCipher(k contract.SealKey) cipher.AEAD {
	sum := sha256.Sum256(append([]byte("session\n"), k.Secret...))
	block, _ := aes.NewCipher(sum[:])             // the key has 32 bytes
	box, _ := cipher.NewGCMWithRandomNonce(block) // AES has blocks of 16 bytes
	return box
}
