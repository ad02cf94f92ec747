package model

import (
	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

const versionField = "agentspec_version"

// version negotiates the document's version.
func (l *loader) version(root *source.Value) {
	l.doc.Version = catalog.Current
	v := root.Get(versionField)
	if v == nil {
		if v = root.Get("air_version"); v != nil {
			l.legacy(v.Pos, "agentspec_version is called air_version", `write "agentspec_version"`)
		}
	}
	if v == nil || v.Kind == source.Null {
		l.Warnf(root.Pos, "version-missing", `write "agentspec_version": "`+catalog.Current.String()+`"`,
			"the document has no version; it is read as %s", catalog.Current)
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
func (l *loader) label(v *source.Value) (version catalog.Version, old bool) {
	if v.Kind == source.String {
		if version, old = catalog.ParseVersion(v.Text); version != 0 {
			return version, old
		}
	}
	l.Errorf(v.Pos, "version-unknown", "write one of: "+catalog.VersionLabels(), "unknown version %s", v.Describe())
	return 0, false
}

// nestedVersion reports a version below the top, where it has no effect, except in files of components.
func (l *loader) nestedVersion(v *source.Value, surprise bool) {
	if v.Kind == source.Null {
		return
	}
	if version, _ := l.label(v); version != 0 && version != l.doc.Version && surprise {
		l.Warnf(v.Pos, "version-nested", "remove it, or set it at the top of the document",
			"a version is only read at the top of the document; this part is read as %s, not as %s", l.doc.Version, version)
	}
}

// needs reports a part that the document's version does not have yet.
func (l *loader) needs(at source.Pos, since catalog.Version, format string, args ...any) {
	if since <= l.doc.Version {
		return
	}
	l.Strictf(at, "version-too-low", `write "agentspec_version": "`+since.String()+`"`,
		format+" needs version %s, the document says %s", append(args, since, l.doc.Version)...)
}
