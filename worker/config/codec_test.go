package config

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCodec(t *testing.T) {
	a, b := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 32))), base64.StdEncoding.EncodeToString([]byte(strings.Repeat("b", 32)))
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("one:"+a+"\n two: "+b+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		env      fakeEnv
		encrypts bool
		err      string
	}{
		"none":                   {env: fakeEnv{}},
		"one":                    {env: fakeEnv{"WEFT_CODEC_KEYS": "one:" + a, "WEFT_CODEC_KEY": "one"}, encrypts: true},
		"two keys in a file":     {env: fakeEnv{"WEFT_CODEC_KEYS_FILE": file, "WEFT_CODEC_KEY": "two"}, encrypts: true},
		"custom variable":        {env: fakeEnv{"MINE": "one:" + a, "WEFT_CODEC_KEYS_ENV": "MINE", "WEFT_CODEC_KEY": "one"}, encrypts: true},
		"decryption only":        {env: fakeEnv{"WEFT_CODEC_KEYS": "one:" + a, "WEFT_CODEC_KEY": "none"}},
		"keys without codec.key": {env: fakeEnv{"WEFT_CODEC_KEYS": "one:" + a}, err: "WEFT_CODEC_KEYS contains keys but codec.key is not set; set codec.key (WEFT_CODEC_KEY)"},
		"unknown key":            {env: fakeEnv{"WEFT_CODEC_KEY": "one"}, err: `codec.key and WEFT_CODEC_KEYS: encryption key "one" not found; use ID:KEY`},
		"duplicate id":           {env: fakeEnv{"WEFT_CODEC_KEYS": "one:" + a + ",one:" + b, "WEFT_CODEC_KEY": "one"}, err: `duplicate key "one"`},
		"no id":                  {env: fakeEnv{"WEFT_CODEC_KEYS": a, "WEFT_CODEC_KEY": "one"}, err: "entry 1 of WEFT_CODEC_KEYS has no id"},
		"short key":              {env: fakeEnv{"WEFT_CODEC_KEYS": "one:" + a + ",two:" + a[:8], "WEFT_CODEC_KEY": "one"}, err: "entry 2 of WEFT_CODEC_KEYS has a key of 6 bytes, expected 32"},
		"not base64":             {env: fakeEnv{"WEFT_CODEC_KEYS": "one:canary!", "WEFT_CODEC_KEY": "one"}, err: "entry 1 of WEFT_CODEC_KEYS has a key that is not base64"},
		"reserved id":            {env: fakeEnv{"WEFT_CODEC_KEYS": "none:" + a, "WEFT_CODEC_KEY": "none"}, err: "has the id none"},
		"only commas":            {env: fakeEnv{"WEFT_CODEC_KEYS": ",,"}, err: "WEFT_CODEC_KEYS contains no key"},
		"missing file":           {env: fakeEnv{"WEFT_CODEC_KEYS_FILE": "/no/such"}, err: "codec.keys_env: read WEFT_CODEC_KEYS_FILE: open /no/such"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, "", tc.env)
			if len(cfg.Warnings) > 0 {
				t.Errorf("warnings: %q", cfg.Warnings)
			}
			c, err := cfg.OpenCodec()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), a) || strings.Contains(err.Error(), "canary") {
					t.Errorf("error = %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil || c.Encrypts() != tc.encrypts {
				t.Fatalf("OpenCodec() = %+v, %v", c, err)
			}
			list, err := cfg.Shown()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				if strings.Contains(s.Value, a) || strings.Contains(s.Value, b) {
					t.Errorf("Shown() reveals the key in %s", s.Key)
				}
			}
		})
	}
}
