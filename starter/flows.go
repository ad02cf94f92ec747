package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"weft/specadapter"
	"weft/specadapter/blueprint"
	"weft/specadapter/drawing"
	"weft/specadapter/shape"
	"weft/starter/input"
	"weft/starter/lsp"
	"weft/starter/plaintext"
	"weft/starter/scaffold"
	"weft/starter/serve"
	"weft/starter/usage"
	"weft/starter/validate"
	"weft/worker/config"
	"weft/workflows/plan"
)

func (a *app) validate(_ context.Context, args []string) error {
	if _, err := a.load(); err != nil {
		return err
	}
	files, found, err := validate.Files(args)
	if err != nil {
		return err
	}
	report := validate.Report{Files: []validate.File{}}
	for _, name := range files {
		d, readErr := a.examine(name, false)
		f, err := report.Add(name, d, readErr, found[name] && a.flags.dialect == "")
		if err != nil {
			return err
		}
		if a.flags.output == outputText {
			line, notes := f.Text()
			for _, n := range notes {
				a.say("%s", n)
			}
			fmt.Fprint(a.stdout, line)
		}
	}
	switch a.flags.output {
	case outputJSON:
		a.object(report)
	case outputSARIF:
		a.object(report.SARIF())
	}
	switch {
	case report.Flows == 0:
		return usage.Errorf("no flows in %s; a flow is a file ending in %s that a dialect recognizes",
			strings.Join(args, ", "), strings.Join(validate.Extensions, ", "))
	case report.Invalid > 0:
		a.say("starter: %d of %d files cannot be run", report.Invalid, report.Flows)
		return exitCode(exitBadInput)
	}
	return nil
}

func (a *app) schema(_ context.Context, args []string) error {
	text, err := config.JSONSchema()
	if args[0] != config.DefaultFile {
		var names []string
		i := slices.IndexFunc(specadapter.Dialects, func(d specadapter.Adapter) bool { names = append(names, d.Name()); return d.Name() == args[0] })
		if i < 0 {
			return usage.Errorf("schema: no schema of %q; schemas: %s and %s", args[0], strings.Join(names, ", "), config.DefaultFile)
		}
		text, err = shape.Marshal(specadapter.Dialects[i].Schema())
	}
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(text)
	return err
}

// lsp runs the language server. It reads the settings again at each check, so that a fix in them takes effect.
func (a *app) lsp(ctx context.Context, _ []string) error {
	var mu sync.Mutex
	last, reported := specadapter.Options{Dialect: a.flags.dialect, Profile: a.flags.profile}, ""
	s := &lsp.Server{Options: func() specadapter.Options {
		mu.Lock()
		defer mu.Unlock()
		cfg, err := config.Load(a.settings())
		if err == nil {
			last, reported = cfg.Reading(a.flags.dialect, a.flags.profile), ""
		} else if text := err.Error(); text != reported {
			reported = text
			a.say("starter: %s", text)
		}
		return last
	}}
	if !s.Serve(ctx, a.stdin, a.stdout) {
		return exitCode(exitFailed)
	}
	return nil
}

// agents lists the agents of a folder, or of agents/ in it, with their diagnostics.
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
		reading := cfg.Reading(blueprint.Name, a.flags.profile)
		folder, err := input.Folder(main)
		if err != nil {
			folder, reading = &specadapter.Folder{Name: main, Text: []byte("{}")}, specadapter.Options{Dialect: blueprint.Name}
		}
		v := serve.View(e.Name(), folder, reading)
		if err != nil {
			v.Diagnostics = []string{err.Error()}
		}
		views = append(views, v)
	}
	if len(views) == 0 {
		return usage.Errorf("no agents in %s; an agent is a folder with %s, in the named folder or its folder agents", args[0], specadapter.FolderMain)
	}
	if len(without) > 0 {
		a.say("skipped, no %s: %s", specadapter.FolderMain, plaintext.Line(strings.Join(without, ", "), 2000))
	}
	a.show(map[string]any{"agents": views}, func() {
		for _, v := range views {
			a.printAgent(v)
		}
	})
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
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

// init writes a first flow. Without a dialect it prompts for one.
func (a *app) init(_ context.Context, args []string) error {
	dialect, dir := argument(args, 0, ""), argument(args, 1, ".")
	if len(args) == 0 {
		dialect = a.ask(fmt.Sprintf("dialect (%s): ", strings.Join(scaffold.Dialects, ", ")))
	}
	if len(args) == 0 && dialect == "" {
		return usage.Errorf("missing dialect, one of %s; usage: starter init DIALECT [FOLDER]", strings.Join(scaffold.Dialects, ", "))
	}
	names, err := scaffold.Write(dialect, dir)
	if err != nil {
		return usage.Errorf("%v", err)
	}
	for _, name := range names {
		fmt.Fprintln(a.stdout, filepath.Join(dir, name))
	}
	in := plaintext.If(dir != ".", "cd %s && ", plaintext.ShellQuote(dir))
	a.say("run it with:    %sstarter %s", in, scaffold.Command(dialect))
	a.say("work on it with: %sstarter dev .", in)
	return nil
}

func (a *app) graph(ctx context.Context, files []string) error {
	switch {
	case a.flags.id != "" && len(files) > 0:
		return usage.Errorf("-id %s and the file %q cannot be combined; remove one of them", a.flags.id, files[0])
	case a.flags.id != "":
		return a.graphOfRun(ctx, a.flags.id)
	case len(files) == 0:
		return usage.Errorf("missing file, or -id with a run's id; usage: starter graph FILE|-id ID")
	}
	res, err := a.compile(files[0], false)
	if err != nil {
		return err
	}
	return a.draw(res.Flow, nil)
}

func (a *app) draw(f *plan.Flow, states drawing.States) error {
	if !a.flags.svg {
		fmt.Fprint(a.stdout, drawing.Mermaid(f, states))
		return nil
	}
	text, err := drawing.SVG(f, states)
	if err != nil {
		return fmt.Errorf("draw the flow %q: %w; draw it as Mermaid, without -svg", f.Name, err)
	}
	fmt.Fprint(a.stdout, text)
	return nil
}

func (a *app) graphOfRun(ctx context.Context, id string) error {
	r, err := a.find(ctx, id)
	if err != nil {
		return err
	}
	answered := a.warnIfSilent(ctx, r)
	g, err := r.Graph(ctx)
	if answered(); err != nil {
		return err
	}
	if g.FromHistory {
		a.sayFromHistory()
	}
	return a.draw(g.Flow, g.States)
}
