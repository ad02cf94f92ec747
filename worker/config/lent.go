package config

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"weft/activities/llm"
	"weft/activities/mask"
	"weft/activities/tool"
	"weft/specadapter/source"
)

// Lent are secrets that a program of the same user has handed to this process. They are in its
// memory alone, go before those of the settings, and end with it. The zero value has none; a nil
// one, too.
type Lent struct {
	mu      sync.RWMutex
	secrets map[string]tool.Secret
	models  map[string]llm.Lent
	mask    *mask.Mask
}

// Secret gives a secret that a flow names.
func (l *Lent) Secret(ref string) (tool.Secret, bool) {
	if l == nil {
		return tool.Secret{}, false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	s, ok := l.secrets[ref]
	return s, ok
}

// Model gives what a provider of models was lent.
func (l *Lent) Model(provider string) llm.Lent {
	if l == nil {
		return llm.Lent{}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.models[provider]
}

// follow has a mask know what is lent, now and later.
func (l *Lent) follow(m *mask.Mask) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mask = m
	for _, s := range l.secrets {
		m.Add(s.Value)
	}
	for _, p := range l.models {
		m.Add(p.Key)
	}
}

// take keeps secrets. What came before under the same name is forgotten.
func (l *Lent) take(all []source.Lent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.secrets == nil {
		l.secrets, l.models = map[string]tool.Secret{}, map[string]llm.Lent{}
	}
	for _, s := range all {
		if s.Setting != source.LentAuthFile {
			l.mask.Add(s.Value)
		}
		if s.Provider == "" {
			l.secrets[s.Ref] = tool.Secret{Value: s.Value, Hosts: s.Hosts}
			continue
		}
		m := l.models[s.Provider]
		switch s.Setting {
		case source.LentKey:
			m.Key = s.Value
		case source.LentAuthFile:
			m.AuthFile = s.Value
		}
		l.models[s.Provider] = m
	}
}

// lentDoor is where a process takes secrets: an address on this machine, and what proves that
// who comes can read this user's files.
type lentDoor struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// LentFile ends the name of the file that says where a worker takes secrets; its ready file's
// name is before it.
const LentFile = ".secrets"

// maxLent bounds what is taken at once.
const maxLent = 8 << 20

// Serve takes secrets until ctx is done. Where it does is in a file that this user alone can
// read, and that is gone afterwards.
func (l *Lent) Serve(ctx context.Context, file string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("take secrets: %w", err)
	}
	door := lentDoor{listener.Addr().String(), rand.Text()}
	raw, err := json.Marshal(door)
	if err == nil {
		err = errors.Join(removed(file), os.WriteFile(file, raw, 0o600))
	}
	if err != nil {
		listener.Close()
		return fmt.Errorf("say where secrets are taken: %w", err)
	}
	server := &http.Server{Handler: l.handler(door.Token), ReadHeaderTimeout: lendPatience, ReadTimeout: lendPatience}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() {
		_ = removed(file)
		_ = server.Close()
	})
	return nil
}

// removed removes a file, which need not be there. A file with other rights would keep them.
func removed(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (l *Lent) handler(token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) != 1 {
			http.Error(w, "POST, with the token", http.StatusForbidden)
			return
		}
		var all []source.Lent
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLent)).Decode(&all); err != nil {
			http.Error(w, "no list of secrets", http.StatusBadRequest) // the error could show one
			return
		}
		l.take(all)
		w.WriteHeader(http.StatusNoContent)
	})
}

// lendPatience is how long handing secrets over may take.
const lendPatience = 10 * time.Second

// Lend hands secrets to the process that takes them where a file says. No error shows one.
func Lend(ctx context.Context, file string, secrets []source.Lent) error {
	raw, err := os.ReadFile(file)
	var door lentDoor
	if err == nil {
		err = json.Unmarshal(raw, &door)
	}
	if err != nil {
		return fmt.Errorf("find where the worker takes secrets: %w", err)
	}
	body, err := json.Marshal(secrets)
	if err != nil {
		return fmt.Errorf("encode the secrets: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lendPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+door.Address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("hand secrets to the worker: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+door.Token)
	// No proxy of the environment may see what goes from one program of this machine to another.
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("hand secrets to the worker: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("the worker at %s did not take the secrets: %s", door.Address, bytes.TrimSpace(why))
	}
	return nil
}
