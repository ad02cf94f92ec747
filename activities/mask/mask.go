// Package mask removes a worker's secrets from the texts that leave it.
//
// The recipient of a secret can return it: a provider in an error, a tool in a result, a model in an answer. A [Mask]
// replaces the values with [Hidden] before a text reaches history, a heartbeat or a log. It finds a
// value in plain text, in JSON regardless of its escapes, and in URLs, but not in other encodings or in parts.
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

// Hidden stands in the place of a secret.
const Hidden = "[secret]"

// Shortest is the least a value must have, in bytes: shorter ones would mangle ordinary text.
const Shortest = len(Hidden)

// Mask knows secrets. A nil one knows none. It may be used by several goroutines.
type Mask struct {
	mu    sync.Mutex
	known map[string]bool
	now   atomic.Pointer[known]
}

type known struct {
	forms    []string // longest first
	replacer *strings.Replacer
}

// New makes a mask of secrets; see [Mask.Add].
func New(values ...string) *Mask {
	m := &Mask{known: map[string]bool{}}
	m.Add(values...)
	return m
}

// Add adds secrets. Of one like "Bearer abc" the part behind the scheme is one, too; of a JSON
// object each text; of PEM each line of a private key. What is shorter than [Shortest] is left out.
func (m *Mask) Add(values ...string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.known)
	for _, v := range values {
		for _, part := range parts(v) {
			for _, form := range forms(part) {
				m.known[form] = true
			}
		}
	}
	if len(m.known) == before {
		return
	}
	k := &known{}
	for form := range m.known {
		k.forms = append(k.forms, form)
	}
	// Longer values first, so that a part never spoils the whole.
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
	m.now.Store(k)
}

func (m *Mask) state() *known {
	if m == nil {
		return nil
	}
	return m.now.Load()
}

// Text is s without secrets.
func (m *Mask) Text(s string) string {
	k := m.state()
	if k == nil {
		return s
	}
	out := k.replacer.Replace(s)
	if raw := []byte(s); escaped(raw) {
		return string(k.walked(raw, out, false))
	}
	return out
}

// JSON is a JSON value without secrets. A value without any comes back in its own bytes.
func (m *Mask) JSON(raw []byte) []byte { return m.json(raw, false) }

// Answer is what a program is told, a JSON value, without secrets, as [Mask.JSON] has it; but ids,
// hashes and page tokens stay as they are. They are members of the value itself, of its elements if
// it is an array, and of those of its lists of runs and requests: never of data within it.
func (m *Mask) Answer(raw []byte) []byte { return m.json(raw, true) }

func (m *Mask) json(raw []byte, answer bool) []byte {
	k := m.state()
	if k == nil || len(raw) == 0 {
		return raw
	}
	out := k.replacer.Replace(string(raw))
	if out == string(raw) && !escaped(raw) {
		return raw
	}
	return k.walked(raw, out, answer)
}

// Tail is the end of a text that still grows, at most so many bytes, without secrets and without
// the beginning or the end of one.
func (m *Mask) Tail(s string, most int) string {
	k := m.state()
	if k == nil {
		return end(s, most)
	}
	longest := len(k.forms[0])
	window := end(s, most+longest)
	cut := len(window) < len(s)
	out := k.replacer.Replace(window[:len(window)-k.partial(window)])
	if cut {
		// What is left of a secret that was cut in two lies here.
		out = end(out, max(0, len(out)-longest))
	}
	return end(out, most)
}

// partial is how many bytes at the end of a text may be the beginning of a secret.
func (k *known) partial(s string) int {
	most := 0
	for _, form := range k.forms {
		for n := min(len(form)-1, len(s)); n > most; n-- {
			if strings.HasSuffix(s, form[:n]) {
				most = n
				break
			}
		}
	}
	// One or two letters begin anything.
	if most < Shortest/2 {
		return 0
	}
	return most
}

// end is the last n bytes of a text, never within a character.
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

// Writer masks what is written to w. A secret must not be spread over two writes: a line of a log
// is one.
func (m *Mask) Writer(w io.Writer) io.Writer { return writer{m, w} }

type writer struct {
	mask *Mask
	to   io.Writer
}

func (w writer) Write(p []byte) (int, error) {
	k := w.mask.state()
	if k == nil {
		return w.to.Write(p)
	}
	if _, err := w.to.Write([]byte(k.replacer.Replace(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}
