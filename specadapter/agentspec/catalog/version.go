package catalog

import "strings"

// Version is a version of the language. They are ordered; the zero Version is none.
type Version uint8

// The versions that change what documents may hold. The pre-release ones are read as
// [V2541].
const (
	V2541 Version = iota + 1
	V2542
	V2610
	V2612
	V2620
)

// Current is the newest version, and that of a document that names none.
const Current = V2620

// versions are the labels of the language, in order.
var versions = []struct {
	label   string
	version Version
	old     bool // a pre-release, read as the first release
}{
	{"25.3.0", V2541, true},
	{"25.3.1", V2541, true},
	{"25.4.0", V2541, true},
	{"25.4.1", V2541, false},
	{"25.4.2", V2542, false},
	{"26.1.0", V2610, false},
	{"26.1.2", V2612, false},
	{"26.2.0", V2620, false},
}

// String is the version's label, such as "25.4.1".
func (v Version) String() string {
	for _, row := range versions {
		if row.version == v && !row.old {
			return row.label
		}
	}
	return "none"
}

// VersionLabels lists what agentspec_version may be.
func VersionLabels() string {
	var out []string
	for _, row := range versions {
		out = append(out, row.label)
	}
	return strings.Join(out, ", ")
}

// ParseVersion returns the version with a label, or 0. Old reports whether it is a pre-release, read as the first release.
func ParseVersion(label string) (version Version, old bool) {
	for _, row := range versions {
		if row.label == label {
			return row.version, row.old
		}
	}
	return 0, false
}
