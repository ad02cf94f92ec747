package plan

import "testing"

// TestOrigin checks that addresses have the same origin if and only if scheme, host and port are the same.
func TestOrigin(t *testing.T) {
	for address, want := range map[string][2]string{
		"x.com":                          {"https://x.com:443", "x.com"},
		"X.com.:443":                     {"https://x.com:443", "x.com"},
		"x.com:8443":                     {"https://x.com:8443", "x.com:8443"},
		"HTTPS://x.com:0443/mcp?q#f":     {"https://x.com:443", "x.com"},
		"http://x.com":                   {"http://x.com:80", "http://x.com"},
		"http://x.com:443/":              {"http://x.com:443", "http://x.com:443"},
		"https://x.com:80/":              {"https://x.com:80", "x.com:80"},
		"https://x.com:/":                {"https://x.com:443", "x.com"},
		"https://x.com@y.com/":           {"https://y.com:443", "y.com"},
		"https://y.com/@x.com":           {"https://y.com:443", "y.com"},
		"::1":                            {"https://[::1]:443", "[::1]"},
		"[0:0::1]:99":                    {"https://[::1]:99", "[::1]:99"},
		"http://[0:0:0:0:0:0:0:1]/":      {"http://[::1]:80", "http://[::1]"},
		"https://[::FFFF:1.2.3.4]/":      {"https://[::ffff:1.2.3.4]:443", "[::ffff:1.2.3.4]"},
		"127.0.0.1":                      {"https://127.0.0.1:443", "127.0.0.1"},
		"http://127.1":                   {"http://127.1:80", "http://127.1"},
		"":                               {},
		"https://":                       {},
		"ftp://x.com":                    {},
		"https://x.com:99999":            {},
		"https://x.com%zz":               {},
		"ftp://x.com:21":                 {},
		"https://{{host}}.example.com/x": {},
	} {
		if got := Origin(address); got != want[0] {
			t.Errorf("Origin(%q) = %q, want %q", address, got, want[0])
		}
		if got := ShortOrigin(address); got != want[1] {
			t.Errorf("ShortOrigin(%q) = %q, want %q", address, got, want[1])
		} else if want[0] != "" && Origin(got) != want[0] {
			t.Errorf("Origin(%q) = %q, want %q", got, Origin(got), want[0])
		}
	}
}
