package mask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	const key = "sk-5f3a9c77b1e"
	m := New(key, "Bearer tok/en+0d4c88==", "short", "", `{"X-Api-Key": "inner19ee02"}`, "Basic dXNlcjpwYXNzd29yZDQ=", `quo"ted\value`,
		"-----BEGIN CERTIFICATE-----\nMIIBpublicpublic\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nMIIBprivate0001\n-----END PRIVATE KEY-----\n")
	for _, c := range []struct{ name, in, want string }{
		{"no secret", "nothing to hide", "nothing to hide"},
		{"a value", "key " + key + ".", "key [secret]."},
		{"twice, adjacent", key + key, "[secret][secret]"},
		{"without its scheme", "it was tok/en+0d4c88==", "it was [secret]"},
		{"with its scheme", "authorization: Bearer tok/en+0d4c88==", "authorization: [secret]"},
		{"in a query", "?t=tok%2Fen%2B0d4c88%3D%3D&a=1", "?t=[secret]&a=1"},
		{"too short to mask", "this is short", "this is short"},
		{"a value in a JSON object of headers", "X-Api-Key is inner19ee02", "X-Api-Key is [secret]"},
		{"the password of a basic credential", "password4", "[secret]"},
		{"in JSON, escaped", `{"a":"quo\"ted\\value"}`, `{"a":"[secret]"}`},
		{"in JSON, with other escapes", `{"a":"\u0073k-5f3a9c77b1e","n":12345678901234567890}`, `{"a":"[secret]","n":12345678901234567890}`},
		{"escapes without a secret", `{"a":"\u00e9", "b":1.0}`, `{"a":"\u00e9", "b":1.0}`},
		{"a line of a private key", "MIIBprivate0001", "[secret]"},
		{"a line of a certificate", "MIIBpublicpublic", "MIIBpublicpublic"},
	} {
		if got := m.Text(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := (*Mask)(nil).Text(key); got != key {
		t.Errorf("no mask: %q", got)
	}
	if got := New("short").Text("short"); got != "short" {
		t.Errorf("a mask without secrets: %q", got)
	}
}

func TestJSON(t *testing.T) {
	m := New(`sk-"5f3a9c77b1e`, "1234567890")
	for _, c := range []struct{ in, want string }{
		{`{"b":1, "a":"x"}`, `{"b":1, "a":"x"}`},
		{`{"b":1, "a":["sk-\"5f3a9c77b1e <"]}`, `{"a":["[secret] <"],"b":1}`},
		{`{"pin":1234567890}`, `{"pin":"[secret]"}`},
		{`{"sk-\u00225f3a9c77b1e":null}`, `{"[secret]":null}`},
		{`no JSON 1234567890`, `no JSON [secret]`},
		{``, ``},
	} {
		got := m.JSON([]byte(c.in))
		if string(got) != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
		if json.Valid([]byte(c.in)) != json.Valid(got) {
			t.Errorf("%s: %s is no longer JSON", c.in, got)
		}
	}
}

// TestTail extends a text byte by byte and checks that no tail shows four consecutive characters of the secret.
func TestTail(t *testing.T) {
	const key = "Kq7#Zw9!Xv3"
	m := New(key, "another-one-that-is-much-longer-than-the-first")
	text := strings.Repeat("ordinary words, é and ü; ", 9) + key + " and so on and on" + strings.Repeat(" and on", 20)
	for _, most := range []int{1, 7, 40, 200, 10_000} {
		for n := range len(text) + 1 {
			got := m.Tail(text[:n], most)
			if len(got) > most {
				t.Fatalf("%d bytes, at most %d: %q", len(got), most, got)
			}
			for i := range len(key) - 4 {
				if part := key[i : i+4]; strings.Contains(got, part) {
					t.Fatalf("%d letters, at most %d bytes: %q shows %q", n, most, got, part)
				}
			}
		}
	}
	if got := m.Tail(text+".", 10_000); got != m.Text(text+".") {
		t.Errorf("a text that fits: %q", got)
	}
	if got := (*Mask)(nil).Tail("aé", 2); got != "é" {
		t.Errorf("no mask: %q", got)
	}
}

func TestAddAndWriter(t *testing.T) {
	var out bytes.Buffer
	m := New()
	w := m.Writer(&out)
	fmt.Fprintln(w, "later-known")
	m.Add("later-known")
	n, err := fmt.Fprintln(w, "now later-known")
	if err != nil || n != len("now later-known\n") {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got, want := out.String(), "later-known\nnow [secret]\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNamed(t *testing.T) {
	const value = "Zx81-and-so-on"
	for name, secret := range map[string]bool{
		"X-Api-Key": true, "CRM_PASS": true, "DB_PASS_FILE": true, "PASS": true, "crm-pass": true, "PGPASSFILE": true, "DBPASS": true, "smtpPass": true,
		"Passphrase": true, "PGPASSWORD": true, "SMTP_PWD": true, "X-JWT": true, "bearer": true,
		"X-Passenger": false, "COMPASS": false, "COMPASS_MODE": false, "X-Bypass": false, "NO_BYPASS_LIST": false, "PASSIVE": false,
		"PWD": false, "OLDPWD": false, "page": false, "LOG_LEVEL": false, "": false,
	} {
		if got := Named(name, value); (got != "") != secret {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, value := range map[string]string{"X-Auth-Mode": "standard", "PWD": "/srv/Projects/weft-2/data", "OLDPWD": "/home/Somebody/elsewhere"} {
		if got := Named(name, value); got != "" {
			t.Errorf("%s: a value that is no secret is masked: %q", name, got)
		}
	}
}

func TestAnswer(t *testing.T) {
	m := New("postgres", "1234567890")
	for _, c := range []struct{ in, want string }{
		{`{"b":1, "run_id":"postgres-x"}`, `{"b":1, "run_id":"postgres-x"}`},
		{`{"run_id":"postgres-x","text":"it is postgres","data":{"id":"postgres"}}`, `{"data":{"id":"[secret]"},"run_id":"postgres-x","text":"it is [secret]"}`},
		{`[{"id":"postgres-x","text":"postgres"},"postgres"]`, `[{"id":"postgres-x","text":"[secret]"},"[secret]"]`},
		{`{"runs":[{"id":"postgres-x"},3,null],"n":1234567890}`, `{"n":"[secret]","runs":[{"id":"postgres-x"},3,null]}`},
		{`{"result_data":[{"id":"postgres"}]}`, `{"result_data":[{"id":"[secret]"}]}`},
		{`{"id":"\u0070ostgres-x","text":"\u0070ostgres"}`, `{"id":"postgres-x","text":"[secret]"}`},
		{`{"id":{"id":"postgres"},"runs":"postgres"}`, `{"id":{"id":"[secret]"},"runs":"[secret]"}`},
		{`no JSON of postgres`, `no JSON of [secret]`},
	} {
		if got := m.Answer([]byte(c.in)); string(got) != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
}
