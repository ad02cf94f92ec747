// Package build identifies the build of a program, for both worker and starter.
//
// A release stamps both values:
//
//	go build -ldflags "-X weft/worker/build.version=v1.2.0 -X weft/worker/build.revision=0123abc" ./worker
//
// Otherwise they come from the Go toolchain.
package build

import (
	"runtime/debug"
	"strings"
)

// version and revision are stamped by the linker.
var version, revision string

// Info returns the version, "devel" if unknown, and the revision, "" if unknown.
func Info() (ver, rev string) {
	ver, rev = version, revision
	if info, ok := debug.ReadBuildInfo(); ok {
		if ver == "" && info.Main.Version != "(devel)" {
			ver = info.Main.Version
		}
		for _, s := range info.Settings {
			if rev == "" && s.Key == "vcs.revision" {
				rev = s.Value
			}
		}
	}
	if ver == "" {
		ver = "devel"
	}
	return ver, rev
}

// String returns "weft VERSION REVISION".
func String() string {
	ver, rev := Info()
	return strings.TrimSpace("weft " + ver + " " + rev)
}
