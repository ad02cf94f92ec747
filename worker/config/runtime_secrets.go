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

// RuntimeSecrets are secrets that another program of the same user sends to this process. They exist
// only in its memory and take precedence over those of the settings. The zero value, and nil, have none.
type RuntimeSecrets struct {
	mu      sync.RWMutex
	secrets map[string]tool.Secret
	models  map[string]llm.Credentials
	mask    *mask.Mask
}

// Secret returns a secret by the name that flows use.
func (r *RuntimeSecrets) Secret(ref string) (tool.Secret, bool) {
	if r == nil {
		return tool.Secret{}, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.secrets[ref]
	return s, ok
}

// Model returns the secrets of a provider of models.
func (r *RuntimeSecrets) Model(provider string) llm.Credentials {
	if r == nil {
		return llm.Credentials{}
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.models[provider]
}

// follow adds the present and future secrets to a mask.
func (r *RuntimeSecrets) follow(m *mask.Mask) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mask = m
	for _, s := range r.secrets {
		m.Add(s.Value)
	}
	for _, p := range r.models {
		m.Add(p.Key)
	}
}

// add stores secrets. It replaces earlier ones of the same names.
func (r *RuntimeSecrets) add(all []source.InlineSecret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.secrets == nil {
		r.secrets, r.models = map[string]tool.Secret{}, map[string]llm.Credentials{}
	}
	for _, s := range all {
		if s.Setting != source.SettingAuthFile {
			r.mask.Add(s.Value)
		}
		if s.Provider == "" {
			r.secrets[s.Ref] = tool.Secret{Value: s.Value, Hosts: s.Hosts}
			continue
		}
		m := r.models[s.Provider]
		switch s.Setting {
		case source.SettingKey:
			m.Key = s.Value
		case source.SettingAuthFile:
			m.AuthFile = s.Value
		}
		r.models[s.Provider] = m
	}
}

// secretsEndpoint is where a process accepts secrets: a loopback address, and a token which proves that
// the sender can read this user's files.
type secretsEndpoint struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// SecretsFile is the suffix of the file that contains a worker's endpoint for secrets, after the name of
// its ready file.
const SecretsFile = ".secrets"

// maxSecrets bounds one request.
const maxSecrets = 8 << 20

// Serve accepts secrets until ctx is done. It writes its endpoint to a file that only this user can
// read, and removes the file at the end.
func (r *RuntimeSecrets) Serve(ctx context.Context, file string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for secrets: %w", err)
	}
	endpoint := secretsEndpoint{listener.Addr().String(), rand.Text()}
	raw, err := json.Marshal(endpoint)
	if err == nil {
		err = errors.Join(remove(file), os.WriteFile(file, raw, 0o600))
	}
	if err != nil {
		listener.Close()
		return fmt.Errorf("write the endpoint for secrets: %w", err)
	}
	receive := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.receive(w, req, endpoint.Token) })
	server := &http.Server{Handler: receive, ReadHeaderTimeout: sendTimeout, ReadTimeout: sendTimeout}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() {
		_ = remove(file)
		_ = server.Close()
	})
	return nil
}

// remove removes a file, if it exists: one with other permissions would keep them.
func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// receive takes the secrets of a request with the token.
func (r *RuntimeSecrets) receive(w http.ResponseWriter, req *http.Request, token string) {
	var all []source.InlineSecret
	switch {
	case req.Method != http.MethodPost || subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), []byte("Bearer "+token)) != 1:
		http.Error(w, "POST with the token is required", http.StatusForbidden)
	case json.NewDecoder(http.MaxBytesReader(w, req.Body, maxSecrets)).Decode(&all) != nil:
		http.Error(w, "invalid list of secrets", http.StatusBadRequest) // the error could show one
	default:
		r.add(all)
		w.WriteHeader(http.StatusNoContent)
	}
}

const sendTimeout = 10 * time.Second

// SendSecrets sends secrets to the process whose endpoint is in a file. Its errors contain none.
func SendSecrets(ctx context.Context, file string, secrets []source.InlineSecret) error {
	raw, err := os.ReadFile(file)
	var endpoint secretsEndpoint
	if err == nil {
		err = json.Unmarshal(raw, &endpoint)
	}
	if err != nil {
		return fmt.Errorf("read the worker's endpoint for secrets: %w", err)
	}
	body, err := json.Marshal(secrets)
	if err != nil {
		return fmt.Errorf("encode the secrets: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+endpoint.Address, bytes.NewReader(body))
	var resp *http.Response
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+endpoint.Token)
		// Secrets must not go through a proxy of the environment.
		resp, err = (&http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}).Do(req)
	}
	if err != nil {
		return fmt.Errorf("send secrets to the worker: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("the worker at %s rejected the secrets: %s", endpoint.Address, bytes.TrimSpace(why))
	}
	return nil
}
