package build

import "testing"

func TestStampedValues(t *testing.T) {
	defer func(v, r string) { version, revision = v, r }(version, revision)
	tests := map[string]struct{ version, revision, want string }{
		"not stamped": {want: "weft devel"},
		"release":     {version: "v1.2.0", revision: "0123abc", want: "weft v1.2.0 0123abc"},
		"no revision": {version: "v1.2.0", want: "weft v1.2.0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			version, revision = tc.version, tc.revision
			if got := String(); got != tc.want {
				t.Errorf("String() = %q, want %q", got, tc.want)
			}
		})
	}
}
