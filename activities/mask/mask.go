// Package mask removes a worker's secrets from text that leaves the worker.
//
// The recipient of a secret can return it: a provider in an error, a tool in a result, a model in an answer. A [Mask]
// replaces the values with [Hidden] before text reaches history, a heartbeat or a log. It finds a
// value in plain text, in JSON regardless of escapes, and in URLs, but neither in other encodings nor in parts.
//
// Start at [New] and [Mask.Text].
package mask

import (
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Hidden replaces a secret.
const Hidden = "[secret]"

// Shortest is the minimum length of a secret in bytes: shorter values would garble ordinary text.
const Shortest = len(Hidden)

// Mask masks secrets; a nil Mask masks none. It is safe for concurrent use.
type Mask struct {
	mu      sync.Mutex
	forms   map[string]bool
	current atomic.Pointer[secrets]
}

// secrets is an immutable set of the forms of secrets.
type secrets struct {
	forms    []string // longest first
	replacer *strings.Replacer
}

// New returns a mask of secrets; see [Mask.Add].
func New(values ...string) *Mask {
	m := &Mask{forms: map[string]bool{}}
	m.Add(values...)
	return m
}

// Add adds secrets. Of a value like "Bearer abc" the part after the scheme is a secret, too; of a JSON
// object each string; of PEM each line of a private key. Values shorter than [Shortest] are ignored.
func (m *Mask) Add(values ...string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.forms)
	for _, v := range values {
		for _, part := range parts(v) {
			for _, form := range forms(part) {
				m.forms[form] = true
			}
		}
	}
	if len(m.forms) == before {
		return
	}
	k := &secrets{}
	for form := range m.forms {
		k.forms = append(k.forms, form)
	}
	// Longer values first, because one may contain another.
	slices.SortFunc(k.forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, form := range k.forms {
		pairs = append(pairs, form, Hidden)
	}
	k.replacer = strings.NewReplacer(pairs...)
	m.current.Store(k)
}

func (m *Mask) load() *secrets {
	if m == nil {
		return nil
	}
	return m.current.Load()
}

// Text returns s with its secrets masked.
func (m *Mask) Text(s string) string {
	k := m.load()
	if k == nil {
		return s
	}
	out := k.replacer.Replace(s)
	if raw := []byte(s); escaped(raw) {
		return string(k.maskStrings(raw, out, false))
	}
	return out
}

// JSON returns a JSON value with its secrets masked. A value without secrets is returned unchanged.
func (m *Mask) JSON(raw []byte) []byte { return m.json(raw, false) }

// Answer is [Mask.JSON] for an answer to a program: ids, hashes and page tokens are not masked. They are
// members of the value, of its elements if it is an array, and of the elements of its lists of runs and
// requests, but never of data within it.
func (m *Mask) Answer(raw []byte) []byte { return m.json(raw, true) }

func (m *Mask) json(raw []byte, answer bool) []byte {
	k := m.load()
	if k == nil || len(raw) == 0 {
		return raw
	}
	out := k.replacer.Replace(string(raw))
	if out == string(raw) && !escaped(raw) {
		return raw
	}
	return k.maskStrings(raw, out, answer)
}

// Tail returns the last bytes of a growing text, at most most of them, with secrets masked and without
// parts of a secret at either end.
func (m *Mask) Tail(s string, most int) string {
	k := m.load()
	if k == nil {
		return end(s, most)
	}
	longest := len(k.forms[0])
	window := end(s, most+longest)
	cut := len(window) < len(s)
	out := k.replacer.Replace(window[:len(window)-k.partial(window)])
	if cut {
		// It may start with the end of a secret.
		out = end(out, max(0, len(out)-longest))
	}
	return end(out, most)
}

// partial returns how many bytes at the end of a text may be the start of a secret.
func (k *secrets) partial(s string) int {
	most := 0
	for _, form := range k.forms {
		for n := min(len(form)-1, len(s)); n > most; n-- {
			if strings.HasSuffix(s, form[:n]) {
				most = n
				break
			}
		}
	}
	// A few letters are the start of many words.
	if most < Shortest/2 {
		return 0
	}
	return most
}

// end returns the last n bytes of a text, from a character's boundary.
func end(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && s[0]&0xC0 == 0x80 {
		s = s[1:]
	}
	return s
}

// Writer returns a writer that masks each write to w. A secret must not span two writes; loggers write
// a line at once.
func (m *Mask) Writer(w io.Writer) io.Writer { return writer{m, w} }

type writer struct {
	mask *Mask
	to   io.Writer
}

func (w writer) Write(p []byte) (int, error) {
	k := w.mask.load()
	if k == nil {
		return w.to.Write(p)
	}
	if _, err := w.to.Write([]byte(k.replacer.Replace(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}
