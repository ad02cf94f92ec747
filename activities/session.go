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

// Whoever knows the session of a server can use it. So history has it encrypted, for the runs of one tree alone.

// sealSession encrypts a session of a connection for the run's later calls; empty of none, and without keys.
func (a *Activities) sealSession(ctx context.Context, connection string, s tool.SessionRef) string {
	g := granted(ctx)
	if s.ID == "" || g == nil || len(a.deps.Keys) == 0 {
		return ""
	}
	raw, _ := json.Marshal(s) // texts alone
	box := sessionCipher(a.deps.Keys[0]).Seal(nil, nil, raw, sessionOf(g, connection))
	return a.deps.Keys[0].ID + ":" + base64.RawStdEncoding.EncodeToString(box)
}

// queueOf is the queue of the calls over a resolved connection whose session no other worker can go on with; empty of others.
func (a *Activities) queueOf(c plan.Connection) string {
	if !a.deps.Tools.Holds(c) {
		return ""
	}
	return a.deps.Queue
}

// openSession decrypts what [Activities.sealSession] gave. What is of another run, connection or key is a session that is lost.
func (a *Activities) openSession(ctx context.Context, connection, sealed string) tool.SessionRef {
	g := granted(ctx)
	if sealed == "" || g == nil {
		return tool.SessionRef{}
	}
	id, text, _ := strings.Cut(sealed, ":")
	i := slices.IndexFunc(a.deps.Keys, func(k contract.SealKey) bool { return k.ID == id })
	raw, err := base64.RawStdEncoding.DecodeString(text)
	unknown := tool.SessionRef{ID: "unknown"}
	if i < 0 || err != nil {
		return unknown
	}
	raw, err = sessionCipher(a.deps.Keys[i]).Open(nil, nil, raw, sessionOf(g, connection))
	var out tool.SessionRef
	if err != nil || json.Unmarshal(raw, &out) != nil {
		return unknown
	}
	return out
}

// sessionOf is what a session is encrypted for.
func sessionOf(g *contract.Grant, connection string) []byte {
	raw, _ := json.Marshal([]any{g.Root, g.Principal, connection}) // texts alone
	return raw
}

func sessionCipher(k contract.SealKey) cipher.AEAD {
	sum := sha256.Sum256(append([]byte("session\n"), k.Secret...))
	block, _ := aes.NewCipher(sum[:])             // the key has 32 bytes
	box, _ := cipher.NewGCMWithRandomNonce(block) // AES has blocks of 16 bytes
	return box
}
