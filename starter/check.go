package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"weft/specadapter"
)

// validate prints all diagnostics of all files. Its exit code is 2 if one is an error.
func (a *app) validate(_ context.Context, files []string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	wrong := 0
	for _, file := range files {
		res, err := a.compile(cfg, file)
		var code coded
		switch {
		case errors.As(err, &code):
			wrong++
		case err != nil:
			a.say("starter: %v", err)
			wrong++
		default:
			fmt.Fprintf(a.stdout, "%s: ok, %s, %d nodes, %d edges\n", file, res.Flow.Dialect, len(res.Flow.Nodes), len(res.Flow.Edges))
		}
	}
	if wrong > 0 {
		a.say("starter: %d of %d files cannot be run", wrong, len(files))
		return coded(exitBadInput)
	}
	return nil
}

// graph draws one flow.
func (a *app) graph(_ context.Context, files []string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	res, err := a.compile(cfg, files[0])
	if err != nil {
		return err
	}
	fmt.Fprint(a.stdout, specadapter.Mermaid(res.Flow))
	return nil
}

// version prints what the build knows about itself.
func (a *app) version(context.Context, []string) error {
	version, revision := "devel", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	fmt.Fprintf(a.stdout, "weft %s%s\n", version, revision)
	return nil
}
