package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// flags are those of all commands; each command says which it understands.
type flags struct {
	flow, input, script, model string
	inputJSON, params, state   string
	param, scope, sets, images manyTexts
	at                         string
	replaced                   manyTexts
	components, component      manyTexts
	dialect, profile           string
	id, taskQueue, config      string
	output, reason             string
	listen, agents             string
	name, status               string
	maxSteps, limit            int
	budget                     budgetFlag
	detach, all, dev, svg      bool
	allowCommands              bool
	session                    bool
	prompt                     string
	help                       bool
	hasInput                   bool
	// given are the names of those that were given.
	given []string
	answerFlags
	scheduleFlags
	tenantFlags
}

// What -output may be.
const (
	outputText  = "text"
	outputJSON  = "json"
	outputLines = "jsonl"
	outputSARIF = "sarif"
)

// outputs are those of most commands; ownOutputs, by its label, those of a command that has
// others.
var (
	outputs    = []string{outputText, outputJSON, outputLines}
	ownOutputs = map[string][]string{
		"validate": {outputText, outputJSON, outputSARIF},
	}
)

// asJSON says that programs read standard output.
func (f *flags) asJSON() bool { return f.output == outputJSON || f.output == outputLines }

// set makes a flag set. The standard library's takes -flow and --flow alike.
func (f *flags) set() *flag.FlagSet {
	fs := flag.NewFlagSet("starter", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&f.flow, "flow", "", "the flow's `FILE`, - for standard input")
	fs.StringVar(&f.input, "input", "", "the run's input: `TEXT`, @FILE, or - for standard input")
	fs.StringVar(&f.inputJSON, "input-json", "", "the run's input as JSON: `JSON`, @FILE, or - for standard input")
	fs.Var(&f.param, "param", "an input that the flow declares: `KEY=TEXT` or KEY:=JSON; may be repeated")
	fs.Var(&f.images, "image", "an image that is shown to the models with the input or the prompt: `FILE` (PNG, JPEG, GIF, WebP); may be repeated")
	fs.Var(&f.scope, "scope", "a value of the placeholder ${scope.KEY}, which no model is told: `KEY=TEXT` or KEY:=JSON; may be repeated")
	fs.StringVar(&f.params, "params", "", "an object with inputs that the flow declares: `JSON`, @FILE, or -")
	fs.StringVar(&f.state, "state", "", "an object with values that the nodes share from the start: `JSON`, @FILE, or -")
	fs.Var(&f.components, "components", "`FILE` with components that the flow refers to; may be repeated")
	fs.Var(&f.component, "component", "which component stands for an id: `ID=FILE#KEY`; may be repeated")
	fs.StringVar(&f.at, "at", "", "the `NODE` with which a fork begins: its id, its name, or node#step")
	fs.Var(&f.sets, "set", "a value of the state that the node sees: `KEY=TEXT` or KEY:=JSON; may be repeated")
	fs.Var(&f.replaced, "instead", "the result of a node before the fork, in place of the recorded one: `NODE=TEXT` or NODE:=JSON; may be repeated")
	fs.StringVar(&f.script, "script", "", "`FILE` with scripted answers, for a run without a model")
	fs.StringVar(&f.model, "model", "", "`provider/model`, or a list of them separated by commas, for nodes that name none (default: the worker's)")
	fs.StringVar(&f.dialect, "dialect", "", "the flow's `dialect` (default: detected)")
	fs.StringVar(&f.profile, "profile", "", "the `reading` of the dialect (default: default)")
	fs.StringVar(&f.id, "id", "", "the run's workflow `ID` (default: the flow's name and 8 random characters)")
	fs.BoolVar(&f.detach, "detach", false, "start the run, print its id and go")
	fs.BoolVar(&f.session, "session", false, "keep the run open for further prompts: starter resume ID -prompt TEXT")
	fs.StringVar(&f.prompt, "prompt", "", "the session's next prompt: `TEXT`, @FILE, or - for standard input")
	fs.StringVar(&f.taskQueue, "task-queue", "", "the workers' task `queue` (default: weft)")
	fs.StringVar(&f.config, "config", "", "settings `FILE` (default: WEFT_CONFIG, else weft.yaml if there is one)")
	fs.IntVar(&f.maxSteps, "max-steps", 0, "the most steps that the run may take (default: the flow's, 25)")
	fs.Var(&f.budget, "budget", "the most that the run may spend on models: `KIND=N`, KIND is calls, tokens or cost; may be repeated")
	fs.StringVar(&f.output, "output", outputText, "`text|json|jsonl`: json is one object at the end, jsonl an object per event too; of validate: sarif")
	fs.BoolVar(&f.all, "all", false, "list runs that have ended, too")
	fs.IntVar(&f.limit, "limit", 50, "list at most `N` runs; 0 is all")
	fs.StringVar(&f.name, "name", "", "list runs of the flow with this `NAME` alone")
	fs.StringVar(&f.status, "status", "", "list runs with this `STATUS` alone: "+strings.Join(statusNames(), ", "))
	fs.BoolVar(&f.svg, "svg", false, "draw an SVG picture instead of Mermaid")
	fs.StringVar(&f.reason, "reason", "", "`TEXT` that says why")
	fs.StringVar(&f.listen, "listen", "", "`HOST:PORT` to serve at (default: 127.0.0.1:8765)")
	fs.StringVar(&f.agents, "agents", "", "`FOLDER` with agents/ and flows (default: flows.dir of the settings)")
	f.answerFlags.set(fs)
	f.scheduleFlags.set(fs)
	f.tenantFlags.set(fs)
	fs.BoolVar(&f.dev, "dev", false, "use an embedded Temporal with a worker, started for the time of this command")
	fs.BoolVar(&f.allowCommands, "allow-commands", false, "with -dev: let the flow start the commands that it names, and remember them")
	fs.BoolVar(&f.help, "help", false, "print this")
	fs.BoolVar(&f.help, "h", false, "print this")
	return fs
}

// parse reads flags before, between and behind arguments, up to --. It gives the names of
// the flags that were given and the arguments.
func (f *flags) parse(args []string) (given, rest []string, err error) {
	fs := f.set()
	wrong := onlyOnce(fs)
	for len(args) > 0 {
		if err := fs.Parse(args); err != nil {
			if *wrong != nil {
				err = *wrong
			} else {
				err = flagError(fs, err)
			}
			return nil, nil, err
		}
		left := fs.Args()
		if read := args[:len(args)-len(left)]; len(read) > 0 && read[len(read)-1] == "--" {
			rest = append(rest, left...)
			break
		}
		if len(left) == 0 {
			break
		}
		rest, args = append(rest, left[0]), left[1:]
	}
	fs.Visit(func(v *flag.Flag) {
		if v.Name != "h" && v.Name != "help" {
			given = append(given, v.Name)
		}
		f.hasInput = f.hasInput || v.Name == "input"
		f.note(v.Name)
	})
	f.given = given
	if err := emptyName(fs); err != nil {
		return nil, nil, err
	}
	if err := f.check(given); err != nil {
		return nil, nil, err
	}
	return given, rest, f.answerFlags.check()
}

// check refuses values that no command takes.
func (f *flags) check(given []string) error {
	switch {
	case f.status != "" && !slices.Contains(statusNames(), f.status):
		return bad("-status is %q, want one of %s", f.status, strings.Join(statusNames(), ", "))
	case f.id == "" && slices.Contains(given, "id"):
		return bad("-id is empty; name a run, or leave it out")
	case f.limit < 0:
		return bad("-limit is %d, want 0 or more", f.limit)
	case f.maxSteps < 0, f.maxSteps == 0 && slices.Contains(given, "max-steps"):
		return bad("-max-steps is %d, want 1 or more", f.maxSteps)
	}
	return f.tenantFlags.check(func(name string) bool { return slices.Contains(given, name) })
}

// flagError puts the standard library's error into this command's words.
func flagError(fs *flag.FlagSet, err error) error {
	text := err.Error()
	if errors.Is(err, flag.ErrHelp) {
		return bad("there is no flag -help")
	}
	name, ok := strings.CutPrefix(text, "flag provided but not defined: -")
	if !ok {
		return bad("%s", text)
	}
	var names []string
	fs.VisitAll(func(v *flag.Flag) { names = append(names, v.Name) })
	if near := source.NewSuggester(names).Nearest(name); near != "" {
		return bad("there is no flag -%s; did you mean -%s?", name, near)
	}
	return bad("there is no flag -%s; starter -help lists them all", name)
}

// describe prints flags: those with the given names, or all.
func (f *flags) describe(w io.Writer, names []string) {
	(&flags{}).set().VisitAll(func(v *flag.Flag) {
		if v.Name == "h" || names != nil && !slices.Contains(names, v.Name) {
			return
		}
		kind, text := flag.UnquoteUsage(v)
		fmt.Fprintf(w, "  %-28s %s\n", strings.TrimSpace("-"+v.Name+" "+kind), text)
	})
}
