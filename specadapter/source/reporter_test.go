package source

import "testing"

func TestIsHeader(t *testing.T) {
	for header, want := range map[[2]string]bool{
		{"X-A", "b"}: true, {"x_a.1", ""}: true, {"", "b"}: false, {"a b", "b"}: false, {"a:", "b"}: false, {"ä", "b"}: false, {"a@b", "b"}: false,
		{"a", "b\nc"}: false, {"a", "b\rc"}: false, {"a", "\x00"}: false,
	} {
		if got := IsHeader(header[0], header[1]); got != want {
			t.Errorf("IsHeader(%q) = %t", header, got)
		}
	}
}

func TestServerURL(t *testing.T) {
	for address, want := range map[string]bool{
		"https://a.example/mcp": true, "http://a": true, "http://u:p@a/": true, "": false, "a.example": false, "ftp://a": false, "http://": false, "http://%zz": false,
	} {
		if _, ok := ServerURL(address); ok != want {
			t.Errorf("ServerURL(%q) is %t", address, ok)
		}
	}
}
