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

const sessionVariable = "AWS_SESSION_TOKEN"

// OpenStore opens the store of the settings. The error is [Problems] and contains no key.
func (c *Config) OpenStore() (*store.Store, error) {
	s, err := c.storeSettings()
	if err != nil {
		return nil, err
	}
	out, err := store.Open(s)
	return out, asProblems(err)
}

// CheckStore checks the settings of the store without creating a directory or querying a bucket. The
// error is [Problems] and contains no key.
func (c *Config) CheckStore() error {
	s, err := c.storeSettings()
	if err != nil {
		return err
	}
	return asProblems(store.Check(s))
}

func asProblems(err error) error {
	if err == nil {
		return nil
	}
	return Problems{err.Error()}
}

// storeSettings returns the settings of the store, with keys.
func (c *Config) storeSettings() (store.Settings, error) {
	s := c.Store.Settings
	if s.Bucket == "" {
		return s, nil
	}
	options, _, err := c.temporal()
	if err != nil {
		return s, err
	}
	s.Namespace = options.Namespace
	var problems Problems
	for _, v := range []struct {
		setting, name string
		at            *string
	}{
		{"store.key_env", c.Store.KeyEnv, &s.AccessKey},
		{"store.secret_env", c.Store.SecretEnv, &s.SecretKey},
		{"store", sessionVariable, &s.SessionToken},
	} {
		if *v.at, err = c.secret(v.name); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", v.setting, err))
		}
	}
	if (s.AccessKey == "") != (s.SecretKey == "") && len(problems) == 0 {
		problems = append(problems, fmt.Sprintf("store.bucket: only one of %s and %s is set; set both, or neither to use the machine's role", c.Store.KeyEnv, c.Store.SecretEnv))
	}
	return s, problems.err()
}

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
