package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weft/specadapter"
	"weft/specadapter/blueprint"
	"weft/starter/input"
	"weft/starter/plaintext"
	"weft/starter/serve"
	"weft/starter/usage"
	"weft/worker/config"
)

// agents lists the agents of a folder, or of agents/ in it. Diagnostics of an agent are listed with it.
func (a *app) agents(_ context.Context, args []string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	dir := args[0]
	if below := filepath.Join(dir, "agents"); isFolder(below) {
		dir = below
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return usage.Errorf("read the folder %s: %v", args[0], input.Cause(err))
	}
	views, without := []*serve.AgentView{}, []string{}
	for _, e := range entries {
		main := filepath.Join(dir, e.Name(), specadapter.FolderMain)
		switch _, err := os.Stat(main); {
		case strings.HasPrefix(e.Name(), "."):
			continue
		case errors.Is(err, fs.ErrNotExist):
			if isFolder(filepath.Join(dir, e.Name())) {
				without = append(without, e.Name())
			}
			continue
		case err != nil && !e.IsDir():
			continue
		}
		views = append(views, a.agentView(cfg, e.Name(), main))
	}
	if len(views) == 0 {
		return usage.Errorf("no agents in %s; an agent is a folder with %s, in the named folder or its folder agents", args[0], specadapter.FolderMain)
	}
	if len(without) > 0 {
		a.say("skipped, no %s: %s", specadapter.FolderMain, plaintext.Line(strings.Join(without, ", "), 2000))
	}
	if a.flags.asJSON() {
		a.object(map[string]any{"agents": views})
		return nil
	}
	for _, v := range views {
		a.printAgent(v)
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// agentView reads one agent. One that cannot be read is shown, too.
func (a *app) agentView(cfg *config.Config, name, main string) *serve.AgentView {
	folder, err := input.Folder(main)
	if err == nil {
		return serve.View(name, folder, cfg.Reading(blueprint.Name, a.flags.profile))
	}
	v := serve.View(name, &specadapter.Folder{Name: main, Text: []byte("{}")}, specadapter.Options{Dialect: blueprint.Name})
	v.Diagnostics = []string{err.Error()}
	return v
}

func (a *app) printAgent(v *serve.AgentView) {
	fmt.Fprintf(a.stdout, "%s  %s, %s\n", plaintext.Line(v.Name, 100), plaintext.Line(v.Type, 40), v.Status)
	if v.Description != "" {
		fmt.Fprintf(a.stdout, "  %s\n", plaintext.Line(v.Description, 500))
	}
	for _, s := range []struct {
		name string
		raw  json.RawMessage
	}{{"parameters", v.ParametersSchema}, {"output", v.OutputSchema}} {
		if string(s.raw) != "null" {
			fmt.Fprintf(a.stdout, "  %s: %s\n", s.name, plaintext.Line(string(s.raw), 4<<10))
		}
	}
	for _, d := range v.Diagnostics {
		fmt.Fprintf(a.stdout, "  %s\n", plaintext.Line(d, 1<<10))
	}
}
