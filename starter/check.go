package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
)

// version prints what the build knows about itself.
func (a *app) version(context.Context, []string) error {
	version, revision := build()
	fmt.Fprintln(a.stdout, strings.TrimSpace("weft "+version+" "+revision))
	return nil
}

// build is the version of this build, and its revision or "".
func build() (version, revision string) {
	version = "devel"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return version, revision
}
