package input

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLargeValues checks that texts and JSON larger than the limit of documents are read completely.
func TestLargeValues(t *testing.T) {
	const n = 17 << 20
	text := strings.Repeat("x", n)
	file := filepath.Join(t.TempDir(), "value")
	for _, from := range []string{"@" + file, "-"} {
		r := &Reader{Stdin: strings.NewReader(text), Say: t.Logf}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Text("-input", from); err != nil || got != text {
			t.Errorf("%s: got %d bytes of %d, %v", from, len(got), n, err)
		}
		r.Stdin = strings.NewReader(`{"k":"` + text + `"}`)
		if err := os.WriteFile(file, []byte(`{"k":"`+text+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := r.JSON("-state", from); err != nil || len(got.Get("k").Text) != n {
			t.Errorf("%s: %v", from, err)
		}
	}
	if _, err := readAll(bytes.NewReader(make([]byte, 11)), "-input", 10); err == nil || !strings.Contains(err.Error(), "-input: it exceeds the limit of 10 bytes") {
		t.Errorf("oversized file: %v", err)
	}
	if got, err := readAll(bytes.NewReader(make([]byte, 10)), "-input", 10); err != nil || len(got) != 10 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
