// Package webhook delivers events to the receivers in the worker's configuration, signed
// according to Standard Webhooks (standardwebhooks.com): webhook-id, webhook-timestamp and
// webhook-signature over id, time and body.
//
// It never retries, follows no redirect, and connects to private addresses only if the operator allows
// it for that receiver.
//
// Start at [Open], then [Hooks.Send].
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weft/activities/address"
	"weft/activities/contract"
)

// Hook is one receiver.
type Hook struct {
	// URL is where events are sent.
	URL string
	// Secrets are whsec_ and base64 of at least 24 bytes. An event is signed with each of them, so
	// that one can be replaced by another.
	Secrets []string
	// Events are the events of [contract.WebhookEvents] to deliver; none means all.
	Events []string
	// Control, if set, can refuse an address that is dialled; see [net.Dialer.Control].
	Control func(network, address string, c syscall.RawConn) error
}

// Hooks are the receivers of one worker.
type Hooks struct {
	hooks map[string]*receiver
	now   func() time.Time
}

type receiver struct {
	Hook
	keys   [][]byte
	client *http.Client
}

const timeout = 20 * time.Second

// Open checks the receivers, without using the network. The problems are one line each.
func Open(hooks map[string]Hook) (*Hooks, []string) {
	out := &Hooks{hooks: map[string]*receiver{}, now: time.Now}
	var problems []string
	for name, h := range hooks {
		r := &receiver{Hook: h}
		add := func(format string, args ...any) {
			problems = append(problems, "webhooks."+name+"."+fmt.Sprintf(format, args...))
		}
		if u, err := url.Parse(h.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			add("url: must be an http or https URL without a password, such as https://hooks.example.com/weft")
		}
		for _, e := range h.Events {
			if !slices.Contains(contract.WebhookEvents, e) {
				add("events: unknown event %q; must be one of %s", e, strings.Join(contract.WebhookEvents, ", "))
			}
		}
		if len(h.Secrets) == 0 {
			add("secret_env: the variable is not set; set it to whsec_ and base64 of at least 24 bytes, several separated by blanks")
		}
		for i, s := range h.Secrets {
			key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
			if err != nil || len(key) < 24 || !strings.HasPrefix(s, "whsec_") {
				add("secret_env: secret %d is invalid; must be whsec_ and base64 of at least 24 bytes", i+1)
			}
			r.keys = append(r.keys, key)
		}
		dialer := &net.Dialer{Timeout: timeout, Control: h.Control}
		r.client = &http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: timeout, MaxIdleConnsPerHost: 4},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		out.hooks[name] = r
	}
	slices.Sort(problems)
	return out, problems
}

// Wanted lists the receivers by name, with their events.
func (h *Hooks) Wanted() []contract.Webhook {
	if h == nil {
		return nil
	}
	var out []contract.Webhook
	for name, r := range h.hooks {
		w := contract.Webhook{Name: name, Events: r.Events}
		if len(w.Events) == 0 {
			w.Events = contract.WebhookEvents
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b contract.Webhook) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Send makes one delivery. A receiver that is no longer configured is skipped without an
// error. Errors are a *[contract.Failure]: unavailable if another attempt may succeed, denied if
// the receiver responds 410 Gone or its address is not allowed.
func (h *Hooks) Send(ctx context.Context, in *contract.WebhookInput) error {
	var r *receiver
	if h != nil {
		r = h.hooks[in.Name]
	}
	if r == nil {
		return nil
	}
	body, _ := json.Marshal(in.Event) // it has been decoded from JSON
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("webhook %q: invalid url", in.Name)}
	}
	at := strconv.FormatInt(h.now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "weft")
	req.Header.Set("webhook-id", in.ID)
	req.Header.Set("webhook-timestamp", at)
	req.Header.Set("webhook-signature", sign(r.keys, in.ID, at, body))
	resp, err := r.client.Do(req)
	if err != nil {
		return undelivered(ctx, in.Name, err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be reused
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusGone:
		return &contract.Failure{Class: contract.ClassDenied, Text: fmt.Sprintf("webhook %q answered 410 Gone", in.Name), Remedy: "remove it from the worker's webhooks"}
	}
	return &contract.Failure{Class: contract.ClassUnavailable, Text: fmt.Sprintf("webhook %q answered %d", in.Name, resp.StatusCode)}
}

// undelivered classifies an error and removes the URL, which may contain a secret.
func undelivered(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if no, ok := errors.AsType[*address.RefusedError](err); ok {
		return &contract.Failure{Class: contract.ClassDenied, Text: fmt.Sprintf("webhook %q: %v", name, no),
			Remedy: "to allow it, set in the worker's weft.yaml: webhooks: {" + name + ": {allow_private: true}}"}
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err
	}
	return &contract.Failure{Class: contract.ClassUnavailable, Text: fmt.Sprintf("webhook %q: %v", name, err)}
}

func sign(keys [][]byte, id, at string, body []byte) string {
	var out []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(out, " ")
}
