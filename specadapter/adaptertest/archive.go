package adaptertest

import (
	"bytes"
	"strings"
)

// archive is a txtar archive: a comment, then files behind lines "-- name --".
type archive struct {
	comment string
	files   []file
}

type file struct{ name, data string }

func parse(raw []byte) *archive {
	a := &archive{}
	to := &a.comment
	for _, line := range strings.SplitAfter(string(raw), "\n") {
		if name, ok := marker(line); ok {
			a.files = append(a.files, file{name: name})
			to = &a.files[len(a.files)-1].data
			continue
		}
		*to += line
	}
	return a
}

func marker(line string) (string, bool) {
	line = strings.TrimRight(line, "\r\n")
	rest, ok := strings.CutPrefix(line, "-- ")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, " --")
}

// replace puts outputs in the place of those that the archive has; positions only where it
// has them.
func (a *archive) replace(got map[string]string) {
	kept := a.files[:0]
	positions := false
	for _, f := range a.files {
		positions = positions || f.name == "positions.txt"
		if !isOutput(f.name) {
			kept = append(kept, f)
		}
	}
	a.files = kept
	for _, name := range outputNames {
		if data := got[name]; data != "" && (name != "positions.txt" || positions) {
			a.files = append(a.files, file{name, data})
		}
	}
}

func (a *archive) bytes() []byte {
	var b bytes.Buffer
	b.WriteString(a.comment)
	for _, f := range a.files {
		b.WriteString("-- " + f.name + " --\n" + f.data)
		if !strings.HasSuffix(f.data, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
