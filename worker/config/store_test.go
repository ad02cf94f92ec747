package config

import (
	"strings"
	"testing"
)

func TestBucketSettings(t *testing.T) {
	bucket := func(env fakeEnv) fakeEnv {
		env["WEFT_STORE_BUCKET"], env["WEFT_STORE_ENDPOINT"] = "payloads", "http://127.0.0.1:1"
		return env
	}
	tests := map[string]struct {
		env fakeEnv
		err string
	}{
		"no bucket":           {fakeEnv{"AWS_ACCESS_KEY_ID": "canary"}, ""},
		"unreachable service": {bucket(fakeEnv{"AWS_ACCESS_KEY_ID": "canary", "AWS_SECRET_ACCESS_KEY": "canary"}), `store.bucket "payloads" at http://127.0.0.1:1 cannot be used: dial tcp 127.0.0.1:1`},
		"only one key":        {bucket(fakeEnv{"AWS_ACCESS_KEY_ID": "canary"}), "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set"},
		"custom variables":    {bucket(fakeEnv{"WEFT_STORE_KEY_ENV": "A", "WEFT_STORE_SECRET_ENV": "B", "A": "canary"}), "only one of A and B is set"},
		"missing key file":    {bucket(fakeEnv{"AWS_ACCESS_KEY_ID_FILE": "/no/such"}), "store.key_env: read AWS_ACCESS_KEY_ID_FILE"},
		"folder and bucket":   {bucket(fakeEnv{"WEFT_STORE_DIR": "/tmp", "AWS_ACCESS_KEY_ID": "canary", "AWS_SECRET_ACCESS_KEY": "canary"}), "set only one of them"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "", tc.env).OpenStore()
			if (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "canary")) {
				t.Errorf("error = %v, want %s", err, tc.err)
			}
		})
	}
}
