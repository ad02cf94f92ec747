package agentspec

import (
	"strings"

	"weft/specadapter/source"
)

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

// labels lists what agentspec_version may be.
func labels() string {
	var out []string
	for _, row := range versions {
		out = append(out, row.label)
	}
	return strings.Join(out, ", ")
}

const versionField = "agentspec_version"

// version negotiates the document's version.
func (l *loader) version(root *source.Value) {
	l.doc.Version = Current
	v := root.Get(versionField)
	if v == nil {
		if v = root.Get("air_version"); v != nil {
			l.legacy(v.Pos, "the version stands under air_version", `write "agentspec_version"`)
		}
	}
	if v == nil || v.Kind == source.Null {
		l.Warnf(root.Pos, "version-missing", `write "agentspec_version": "`+Current.String()+`"`,
			"the document names no version; it is read as %s", Current)
		return
	}
	if version, old := l.label(v); version != 0 {
		l.doc.Version = version
		if old {
			l.Warnf(v.Pos, "version-old", `write "`+version.String()+`"`,
				"the version %s is a pre-release; the document is read as %s", v.Describe(), version)
		}
	}
}

// label reads a version's label, or reports it and returns 0.
func (l *loader) label(v *source.Value) (version Version, old bool) {
	for _, row := range versions {
		if v.Kind == source.String && v.Text == row.label {
			return row.version, row.old
		}
	}
	l.Errorf(v.Pos, "version-unknown", "write one of: "+labels(), "the version %s is not known", v.Describe())
	return 0, false
}

// nestedVersion judges a version that stands below the top, where it has no meaning. In a
// file of components that is no surprise.
func (l *loader) nestedVersion(v *source.Value, surprise bool) {
	if v.Kind == source.Null {
		return
	}
	if version, _ := l.label(v); version != 0 && version != l.doc.Version && surprise {
		l.Warnf(v.Pos, "version-nested", "remove it, or set it at the top of the document",
			"a version counts at the top of the document alone; it is read as %s, not as %s", l.doc.Version, version)
	}
}

// needs reports a part that the document's version does not have yet.
func (l *loader) needs(at source.Pos, since Version, format string, args ...any) {
	if since <= l.doc.Version {
		return
	}
	l.Strictf(at, "version-too-low", `write "agentspec_version": "`+since.String()+`"`,
		format+" needs version %s, the document says %s", append(args, since, l.doc.Version)...)
}
