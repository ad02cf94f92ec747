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

// The signature is that of the specification's own example.
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
		says    string
	}{
		"taken":           {204, true, "", ""},
		"busy":            {503, true, contract.ClassUnavailable, "answered 503"},
		"a redirect":      {302, true, contract.ClassUnavailable, "answered 302"},
		"refused":         {400, true, contract.ClassUnavailable, "answered 400"},
		"gone for good":   {410, true, contract.ClassDenied, "answered 410 Gone"},
		"a private place": {204, false, contract.ClassDenied, "webhooks: {ops: {allow_private: true}}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			asked := 0
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
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
				if err != nil || asked != 1 {
					t.Errorf("%v after %d requests", err, asked)
				}
				return
			}
			if f := (*contract.Failure)(nil); !errors.As(err, &f) || f.Class != tc.class || !strings.Contains(f.Error(), tc.says) {
				t.Errorf("got %v, want %s: %s", err, tc.class, tc.says)
			}
			if tc.allowed != (asked == 1) {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

func TestSendToNobody(t *testing.T) {
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
			t.Errorf("%s\nhas no %s", got, want)
		}
	}
	if strings.Contains(got, "u:p") {
		t.Error("a password is shown")
	}
	hooks, problems := Open(map[string]Hook{"b": {URL: "https://h/", Secrets: []string{first}}, "a": {URL: "https://h/", Secrets: []string{first}, Events: []string{contract.EventRunFinished}}})
	if w := hooks.Wanted(); len(problems) > 0 || len(w) != 2 || w[0].Name != "a" || len(w[1].Events) != len(contract.WebhookEvents) {
		t.Errorf("wanted %v, %v", w, problems)
	}
}
