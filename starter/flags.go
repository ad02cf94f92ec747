package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/input"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
)

type flags struct {
	input.Flags
	model, from            string
	sets, overrides        []string
	dialect, profile       string
	id, taskQueue, config  string
	output, reason         string
	listen, agents         string
	name, status           string
	onError                string
	maxSteps, limit        int
	budget                 budgetFlag
	detach, all, dev, svg  bool
	content                bool
	format                 string
	allowCommands, waiting bool
	session                bool
	prompt                 string
	// setNames are the names of the flags on the command line.
	setNames []string
	answerFlags
	scheduleFlags
	priorityFlags
}

type answerFlags struct {
	yes, no, remember, giveUp, signal bool
	arguments, result, toolError      string
	by, node, request, key            string
}

// Values of -output.
const (
	outputText  = "text"
	outputJSON  = "json"
	outputLines = "jsonl"
	outputSARIF = "sarif"
)

func (f *flags) asJSON() bool { return f.output == outputJSON || f.output == outputLines }

func (f *flags) has(name string) bool { return slices.Contains(f.setNames, name) }

// declare declares every flag. A name has the same meaning in all commands.
func (f *flags) declare() []cli.Flag {
	return []cli.Flag{
		fileFlag("flow", &f.Flow, "the flow's `FILE`, - for standard input"),
		textFlag("input", &f.Input, "the run's input: `TEXT`, @FILE, or - for standard input"),
		textFlag("input-json", &f.InputJSON, "the run's input as JSON: `JSON`, @FILE, or - for standard input"),
		listFlag("param", &f.Param, "an input that the flow declares: `KEY=TEXT` or KEY:=JSON"),
		textFlag("params", &f.Params, "an object with inputs that the flow declares: `JSON`, @FILE, or -"),
		listFlag("image", &f.Images, "an image sent to models with the input or the prompt: `FILE` (PNG, JPEG, GIF, WebP)"),
		listFlag("document", &f.Documents, "a document sent to models with the input or the prompt: `FILE` (PDF)"),
		listFlag("audio", &f.Audio, "a recording sent to models with the input or the prompt: `FILE` (WAV, MP3, FLAC, Ogg)"),
		listFlag("scope", &f.Scope, "the value of the placeholder ${scope.KEY}, which is not an input for models: `KEY=TEXT` or KEY:=JSON"),
		textFlag("state", &f.State, "an object with the initial values of the shared state: `JSON`, @FILE, or -"),
		listFlag("components", &f.Components, "`FILE` with components that the flow refers to"),
		listFlag("component", &f.Component, "the component to use for an id: `ID=FILE#KEY`"),
		fileFlag("script", &f.Script, "`FILE` with scripted answers, to run without a model"),
		nameFlag("model", &f.model, "`PROVIDER/MODEL`, or a comma-separated list, for nodes that specify none (default: the worker's)"),
		nameFlag("dialect", &f.dialect, "the flow's `DIALECT` (default: detected)"),
		nameFlag("profile", &f.profile, "the dialect's `PROFILE` (default: default)"),
		nameFlag("id", &f.id, "the run's workflow `ID` (default: the flow's name and 8 random characters)"),
		boolFlag("detach", &f.detach, "print the run's id and exit without waiting"),
		boolFlag("session", &f.session, "keep the run open for further prompts: starter resume ID -prompt TEXT"),
		textFlag("prompt", &f.prompt, "the session's next prompt: `TEXT`, @FILE, or - for standard input"),
		choiceFlag("on-error", &f.onError, "`wait|fail`: what a run does if a failure requires an operator (default: wait; with -dev: fail)"),
		nameFlag("task-queue", &f.taskQueue, "the workers' task `QUEUE` (default: weft)"),
		intFlag("max-steps", &f.maxSteps, 0, 1, 0, "run at most `N` steps (default: the flow's, 25)"),
		&cli.GenericFlag{Name: "budget", Value: &f.budget, Usage: "limit what the run may spend on models: `KIND=N`, KIND is calls, tokens or cost; can be repeated"},
		nameFlag("from", &f.from, "the `NODE` that a fork starts from: its id, its name, or node#step"),
		listFlag("set", &f.sets, "set a state value for the node: `KEY=TEXT` or KEY:=JSON"),
		listFlag("override", &f.overrides, "replace the recorded result of a node before the fork: `NODE=TEXT` or NODE:=JSON"),
		boolFlag("all", &f.all, "also list closed runs"),
		intFlag("limit", &f.limit, 50, 0, 0, "list at most `N`; 0 lists all"),
		nameFlag("name", &f.name, "only runs of the flow with this `NAME`"),
		choiceFlag("status", &f.status, "only runs with this `STATUS`: "+strings.Join(runs.StatusNames(), ", ")),
		boolFlag("waiting", &f.waiting, "list the requests that open runs wait for"),
		boolFlag("svg", &f.svg, "draw SVG instead of Mermaid"),
		choiceFlag("format", &f.format, "the `FORMAT` of the trace: agentspec, Agent Spec Tracing (the default)"),
		boolFlag("content", &f.content, "export prompts, answers, arguments, results and error texts, which are masked by default"),
		textFlag("reason", &f.reason, "the reason, as `TEXT`"),
		&cli.StringFlag{Name: "output", Usage: "output `FORMAT`: text, json (one object), jsonl (one object per event or entry); validate: text, json, sarif",
			Value: outputText, Destination: &f.output, OnlyOnce: true, HideDefault: true},
		nameFlag("listen", &f.listen, "`HOST:PORT` to listen on (default: 127.0.0.1:8765)"),
		fileFlag("agents", &f.agents, "`FOLDER` with agents/ and flows (default: the setting flows.dir)"),
		fileFlag("config", &f.config, "settings `FILE` (default: WEFT_CONFIG, or weft.yaml if it exists)"),
		boolFlag("dev", &f.dev, "use an embedded Temporal server and worker for the duration of this command"),
		boolFlag("allow-commands", &f.allowCommands, "with -dev: allow the commands in the flow, and remember them"),
		boolFlag("yes", &f.yes, "allow the tool call"),
		boolFlag("no", &f.no, "refuse the tool call"),
		textFlag("arguments", &f.arguments, "`JSON|@FILE`: an object that replaces the arguments of the call"),
		boolFlag("remember", &f.remember, "apply the answer to all later calls of the same tool in this run"),
		textFlag("result", &f.result, "the tool's result: `JSON|@FILE|-`, - for standard input"),
		textFlag("error", &f.toolError, "the tool's error for the model, as `TEXT`"),
		boolFlag("give-up", &f.giveUp, "do not retry: fail the node"),
		textFlag("by", &f.by, "`NAME` of the user who answers (default: user@host)"),
		boolFlag("signal", &f.signal, "send a signal, without waiting for the answer to be accepted"),
		textFlag("node", &f.node, "id of the `NODE` that receives the message"),
		textFlag("request", &f.request, "the `REQUEST` that the message answers: its id, or an unambiguous prefix or suffix"),
		textFlag("key", &f.key, "idempotency `KEY`: a second send with the same key is ignored"),
		listFlag("cron", &f.cron, "start runs at `\"MINUTE HOUR DAY MONTH WEEKDAY\"`"),
		listFlag("every", &f.every, "start runs every `INTERVAL`, or INTERVAL/OFFSET: 6h, 1d/9h"),
		nameFlag("timezone", &f.timezone, "time `ZONE` of -cron, such as Europe/Berlin (default: UTC)"),
		choiceFlag("overlap", &f.overlap, "what to do while a run of the schedule is open: `POLICY` is "+strings.Join(overlaps, ", ")+" (default: skip)"),
		intFlag("priority", &f.priority, 0, 1, lowestPriority, "priority of the run's tasks, `1..5`: 1 runs first (default: 3)"),
		&cli.StringFlag{Name: "fairness-key", Usage: "fairness `KEY` of the run's tasks: keys share workers evenly", Destination: &f.fairnessKey, OnlyOnce: true, Validator: func(key string) error {
			if key == "" || len(key) > runs.MaxFairnessKey || strings.ContainsFunc(key, plaintext.Unprintable) {
				return fmt.Errorf("expected printable ASCII, from 1 to %d bytes", runs.MaxFairnessKey)
			}
			return nil
		}},
		&cli.FloatFlag{Name: "fairness-weight", Usage: "`WEIGHT` of the fairness key, from 0.001 to 1000 (default: 1)", Destination: &f.fairnessWeight, OnlyOnce: true, HideDefault: true, Validator: func(weight float64) error {
			if !(weight >= minFairnessWeight) || weight > maxFairnessWeight {
				return fmt.Errorf("expected %v to %v", minFairnessWeight, maxFairnessWeight)
			}
			return nil
		}},
	}
}

// choices are the permitted values of flags with a fixed set of values.
var choices = map[string][]string{
	"on-error": {contract.OnErrorWait, contract.OnErrorFail}, "status": runs.StatusNames(), "format": {"agentspec"}, "overlap": overlaps,
}

// Each function declares a flag of one kind. The usage has the value's placeholder in
// backquotes. Only list flags can be repeated.

func textFlag(name string, p *string, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true}
}

func nameFlag(name string, p *string, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true, Validator: refuseEmpty}
}

func fileFlag(name string, p *string, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true, TakesFile: true, Validator: refuseEmpty}
}

func choiceFlag(name string, p *string, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true, Validator: func(v string) error {
		if !slices.Contains(choices[name], v) {
			return fmt.Errorf("expected one of %s", strings.Join(choices[name], ", "))
		}
		return nil
	}}
}

// listFlag declares a flag that can be repeated; a comma in a value is not a separator.
func listFlag(name string, p *[]string, usage string) cli.Flag {
	return &cli.StringSliceFlag{Name: name, Usage: usage + "; can be repeated", Destination: p}
}

func boolFlag(name string, p *bool, usage string) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true, HideDefault: true}
}

func intFlag(name string, p *int, value, lowest, highest int, usage string) cli.Flag {
	return &cli.IntFlag{Name: name, Usage: usage, Value: value, Destination: p, OnlyOnce: true, HideDefault: value == 0, Validator: func(v int) error {
		switch {
		case highest > 0 && (v < lowest || v > highest):
			return fmt.Errorf("expected %d to %d", lowest, highest)
		case v < lowest:
			return fmt.Errorf("expected %d or more", lowest)
		}
		return nil
	}}
}

func refuseEmpty(v string) error {
	if v == "" {
		return errors.New("expected a value")
	}
	return nil
}

const micros = 1_000_000

type budgetFlag contract.Budget

// String is empty: there is no default to show.
func (b *budgetFlag) String() string { return "" }

func (b *budgetFlag) Get() any { return *b }

func (b *budgetFlag) Set(s string) error {
	kind, text, _ := strings.Cut(s, "=")
	switch kind {
	case "calls", "tokens":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("%s must be a positive integer, such as %s=100", kind, kind)
		}
		*map[string]*int{"calls": &b.Calls, "tokens": &b.Tokens}[kind] = n
		return nil
	case "cost":
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 1.0/micros) || v > 1e9 {
			return fmt.Errorf("cost must be an amount in the currency of the worker's prices, such as cost=0.50")
		}
		b.Cost = int64(math.Round(v * micros))
		return nil
	}
	return fmt.Errorf("expected calls=N, tokens=N or cost=AMOUNT")
}

func (b *budgetFlag) budget() *contract.Budget {
	out := contract.Budget(*b)
	if !out.Bounds() {
		return nil
	}
	return &out
}

// Bounds of Temporal's priorities.
const (
	lowestPriority    = 5
	minFairnessWeight = 0.001
	maxFairnessWeight = 1000
)

type priorityFlags struct {
	priority       int
	fairnessKey    string
	fairnessWeight float64
}

func (f *priorityFlags) checkPair() error {
	if f.fairnessWeight != 0 && f.fairnessKey == "" {
		return usage.Errorf("-fairness-weight requires -fairness-key")
	}
	return nil
}

func (f *priorityFlags) temporalPriority() temporal.Priority {
	return temporal.Priority{PriorityKey: f.priority, FairnessKey: f.fairnessKey, FairnessWeight: float32(f.fairnessWeight)}
}

// inheritedPriority returns the priority of a fork: values without a flag are inherited; a new key has its own weight.
func (f *priorityFlags) inheritedPriority(old temporal.Priority) temporal.Priority {
	out := old
	if f.priority != 0 {
		out.PriorityKey = f.priority
	}
	if f.fairnessKey != "" {
		out.FairnessKey, out.FairnessWeight = f.fairnessKey, float32(f.fairnessWeight)
	}
	return out
}
