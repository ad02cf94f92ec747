package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weft/activities/address"
	"weft/activities/contract"
)

const first, second = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

// TestSign checks the signature of the example in the Standard Webhooks specification.
func TestSign(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(first, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	got := sign([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("got %s", got)
	}
}

func TestSend(t *testing.T) {
	event := &contract.WebhookInput{Name: "ops", ID: "evt_1", Event: contract.WebhookEvent{Type: contract.EventRunFinished, Timestamp: time.Unix(5, 0).UTC(), Data: []byte(`{"run":"r"}`)}}
	tests := map[string]struct {
		status  int
		allowed bool
		class   string
		text    string
	}{
		"accepted":        {204, true, "", ""},
		"unavailable":     {503, true, contract.ClassUnavailable, "answered 503"},
		"a redirect":      {302, true, contract.ClassUnavailable, "answered 302"},
		"bad request":     {400, true, contract.ClassUnavailable, "answered 400"},
		"gone for good":   {410, true, contract.ClassDenied, "answered 410 Gone"},
		"a private place": {204, false, contract.ClassDenied, "webhooks: {ops: {allow_private: true}}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			requests := 0
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				body, _ := io.ReadAll(r.Body)
				at, signature := r.Header.Get("webhook-timestamp"), r.Header.Get("webhook-signature")
				keys := [][]byte{}
				for _, s := range []string{first, second} {
					key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
					keys = append(keys, key)
				}
				if want := sign(keys, "evt_1", at, body); signature != want || at != "77" || r.Header.Get("webhook-id") != "evt_1" {
					t.Errorf("signed %s at %s, want %s", signature, at, want)
				}
				if want := `{"type":"run.finished","timestamp":"1970-01-01T00:00:05Z","data":{"run":"r"}}`; string(body) != want {
					t.Errorf("body %s, want %s", body, want)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tc.status)
			}))
			defer web.Close()
			hooks, problems := Open(map[string]Hook{"ops": {URL: web.URL + "/hook", Secrets: []string{first, second}, Control: address.New(address.Allowed{Private: tc.allowed}, web.URL).Control}})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			hooks.now = func() time.Time { return time.Unix(77, 0) }
			err := hooks.Send(t.Context(), event)
			if tc.class == "" {
				if err != nil || requests != 1 {
					t.Errorf("%v after %d requests", err, requests)
				}
				return
			}
			if f := (*contract.Failure)(nil); !errors.As(err, &f) || f.Class != tc.class || !strings.Contains(f.Error(), tc.text) {
				t.Errorf("got %v, want %s: %s", err, tc.class, tc.text)
			}
			if tc.allowed != (requests == 1) {
				t.Errorf("got %d requests", requests)
			}
		})
	}
}

func TestSendWithoutWebhooks(t *testing.T) {
	var none *Hooks
	if err := none.Send(context.Background(), &contract.WebhookInput{Name: "ops"}); err != nil || none.Wanted() != nil {
		t.Errorf("got %v", err)
	}
}

func TestOpen(t *testing.T) {
	_, problems := Open(map[string]Hook{
		"a": {URL: "ftp://x", Secrets: []string{first}}, "b": {URL: "https://u:p@h/", Secrets: []string{"secret"}}, "c": {URL: "https://h/", Events: []string{"run.started"}},
	})
	got := strings.Join(problems, "\n")
	for _, want := range []string{"webhooks.a.url: must be an http", "webhooks.b.url: must be", "webhooks.b.secret_env: secret 1 is invalid", `webhooks.c.events: unknown event "run.started"`, "webhooks.c.secret_env: the variable is not set"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\ndoes not contain %s", got, want)
		}
	}
	if strings.Contains(got, "u:p") {
		t.Error("the message contains a password")
	}
	hooks, problems := Open(map[string]Hook{"b": {URL: "https://h/", Secrets: []string{first}}, "a": {URL: "https://h/", Secrets: []string{first}, Events: []string{contract.EventRunFinished}}})
	if w := hooks.Wanted(); len(problems) > 0 || len(w) != 2 || w[0].Name != "a" || len(w[1].Events) != len(contract.WebhookEvents) {
		t.Errorf("wanted %v, %v", w, problems)
	}
}
