package program

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// ExitGrace is the time that a command has to exit by itself, and again after SIGTERM.
const ExitGrace = time.Second

// longestLine bounds the part of a command's output in an error, in bytes.
const longestLine = 300

// Environment returns the environment of a command: base, with own overriding it.
func Environment(base, own map[string]string) []string {
	env := maps.Clone(base)
	maps.Copy(env, own)
	var out []string
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// LookUp finds a command in PATH as a shell would. A relative path with a slash is relative to dir.
func LookUp(command, path, dir string) (string, error) {
	if strings.ContainsRune(command, filepath.Separator) {
		if !filepath.IsAbs(command) && dir != "" {
			command = filepath.Join(dir, command)
		}
		return filepath.Abs(command)
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue
		}
		full := filepath.Join(d, command)
		if info, err := os.Stat(full); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("not found in PATH %q", path)
}

// Tail keeps the end of a command's standard error, which must be drained.
type Tail struct {
	// MaxBytes is the number of bytes to keep; 0 means 4 KiB.
	MaxBytes int
	mu       sync.Mutex
	end      []byte
}

// Write appends p and drops the start of the text that exceeds the limit.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - cmp.Or(t.MaxBytes, 4<<10); extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	return len(p), nil
}

// Text returns the text that was kept.
func (t *Tail) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end)
}

// String returns the end of the text in one line, for an error.
func (t *Tail) String() string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(t.Text(), "")), " ")
	if extra := len(text) - longestLine; extra > 0 {
		text = "..." + strings.ToValidUTF8(text[extra:], "")
	}
	return text
}
