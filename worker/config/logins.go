package config

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"weft/activities/contract"
	"weft/worker/store"
)

// logins implements [oauth.Logins]: it keeps the tokens of connections in the store, encrypted with the keys that seal what runs may reach.
type logins struct {
	open func() (*store.Store, error)
	keys []contract.SealKey
}

// logins returns them without opening the store.
func (c *Config) logins() (*logins, error) {
	keys, err := c.SealKeys()
	if err == nil && c.Store.Dir == "" && c.Store.Bucket == "" {
		err = errors.New("connections with oauth need a store for their tokens; set store.dir or store.bucket")
	}
	return &logins{open: sync.OnceValues(c.OpenStore), keys: keys}, err
}

func loginName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "login-" + hex.EncodeToString(sum[:])
}

func (l *logins) Load(ctx context.Context, id string) ([]byte, error) {
	s, err := l.open()
	if err != nil {
		return nil, err
	}
	data, err := s.Load(ctx, loginName(id))
	if err != nil {
		return nil, err
	}
	keyID, sealed, _ := strings.Cut(string(data), "\n")
	at := slices.IndexFunc(l.keys, func(k contract.SealKey) bool { return k.ID == keyID })
	if at < 0 {
		return nil, fmt.Errorf("it is encrypted with the key %q, which authority.keys_env does not name", keyID)
	}
	box, err := seal(l.keys[at])
	if err != nil {
		return nil, err
	}
	return box.Open(nil, nil, []byte(sealed), []byte(id))
}

func (l *logins) Save(ctx context.Context, id string, data []byte) error {
	s, err := l.open()
	if err != nil {
		return err
	}
	box, err := seal(l.keys[0])
	if err != nil {
		return err
	}
	return s.Save(ctx, loginName(id), box.Seal([]byte(l.keys[0].ID+"\n"), nil, data, []byte(id)))
}

func (l *logins) Lock(ctx context.Context, id string) (func(), error) {
	s, err := l.open()
	if err != nil {
		return nil, err
	}
	return s.Lock(ctx, loginName(id))
}

// seal encrypts with a key of its own, which is derived.
func seal(k contract.SealKey) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.Secret, nil, "weft logins", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
