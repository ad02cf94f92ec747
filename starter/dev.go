package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter/source"
	"weft/starter/dev"
	"weft/starter/plaintext"
	"weft/starter/usage"
	"weft/worker/config"
	"weft/workflows/plan"
)

func (a *app) joinDev(ctx context.Context) error {
	a.setStage("what -dev has started stops by itself")
	d, err := dev.Join(ctx, dev.Options{Settings: a.settings(), Say: a.say, Connect: a.connect, Interruptible: a.interruptible})
	if err != nil {
		d.Close()
		return err
	}
	a.dev, a.env, a.cfg = d, d.Settings.Env, nil // the settings are others now
	a.setStage("")
	return nil
}

// self begins a command line that reaches what this one reaches.
func (a *app) self() string {
	return "starter " + plaintext.If(a.flags.dev, "-dev ") + plaintext.If(a.flags.dev && a.flags.config != "", "-config %s ", plaintext.ShellQuote(a.flags.config))
}

// detachedText says what becomes of a run that is not followed any more, and how to go on.
func (a *app) detachedText(id string) string {
	again := a.self() + "follow " + plaintext.ShellQuote(id)
	if a.dev == nil || !a.dev.Embedded && !a.dev.Helped {
		return "detached; the run continues; follow it with: " + again
	}
	what := cmp.Or(plaintext.If(a.dev.Embedded, "the embedded Temporal"), "the worker that -dev started")
	return "detached; " + what + " ends with the last command that uses it: then the run is paused; continue with: " + again
}

// What is to be done again with a worker that -dev has started, once it has what it lacked: a command that failed, or one that
// follows a run which waits.
const (
	runAgain   = "run the command again, once no other starter -dev runs"
	startAgain = "end every starter -dev, this one too, with Ctrl-C, so that the next one starts a worker that has it"
)

var lacksVariable = regexp.MustCompile(`set (\w+)( or \w+_FILE)? in the worker's environment(?: \(not the client's\) and restart the worker)?`)

// ofOwn words what a worker lacks for whoever started the worker with -dev: it is set here.
func (a *app) ofOwn(text, again string) string {
	if a.dev == nil || !a.dev.Embedded && !a.dev.Helped {
		return text
	}
	file := config.DefaultFile
	if a.cfg != nil && a.cfg.File != "" {
		file = a.cfg.File
	}
	words := strings.NewReplacer("in the worker's environment (not the client's), or model in its weft.yaml, and restart the worker", "in this environment, or model in "+file+", and "+again,
		"set in the worker's weft.yaml", "set in "+file, "the worker's weft.yaml", file, "the worker's environment", "this environment", "on the worker", "here")
	return words.Replace(lacksVariable.ReplaceAllString(text, "export $1=VALUE, and "+again))
}

// ofOwnWorker is ofOwn for a failure.
func (a *app) ofOwnWorker(f *contract.Failure) *contract.Failure {
	out := *f
	out.Text, out.Remedy, out.Diagnostics = a.ofOwn(f.Text, runAgain), a.ofOwn(f.Remedy, runAgain), nil
	for _, text := range f.Diagnostics {
		out.Diagnostics = append(out.Diagnostics, a.ofOwn(text, runAgain))
	}
	return &out
}

// ofOwnWaiting is ofOwn for what a run waits for: the commands that answer are named behind it.
func (a *app) ofOwnWaiting(text string) string {
	out := a.ofOwn(text, startAgain)
	if out != text && !strings.Contains(out, startAgain) {
		out += "; then " + startAgain
	}
	return out
}

// mayStart asks whether the flow may start its commands on this machine, and stores what is allowed.
func (a *app) mayStart(cfg *config.Config, flow *plan.Flow) error {
	if !a.flags.dev && !a.flags.allowCommands {
		return nil
	}
	named := namedCommands(cfg, flow)
	switch {
	case a.flags.dev:
	case len(named) == 0:
		return usage.Errorf("-allow-commands needs -dev, and the flow has no commands")
	default:
		return usage.Errorf("-allow-commands needs -dev; for another worker set in its weft.yaml: %s", allowLine(named))
	}
	own, err := config.OwnCommands(a.env)
	if err != nil {
		return usage.Errorf("%v; allowed commands are stored there", err)
	}
	var asked []config.Command
	var lines []string
	for _, c := range named {
		if !own.Allowed(c) {
			asked = append(asked, c)
			lines = append(lines, commandLine(c))
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if !a.flags.allowCommands && a.interactive() {
		a.say("dev: the flow starts on this machine:\n\t%s", strings.Join(lines, "\n\t"))
	}
	if !a.flags.allowCommands && !slices.Contains([]string{"y", "yes"}, strings.ToLower(a.ask("dev: allow it? [y/N] "))) {
		return usage.Errorf("the flow starts commands on this machine that you have not allowed: %s; allow them with -dev -allow-commands, or set in weft.yaml: %s",
			strings.Join(lines, "; "), allowLine(asked))
	}
	for _, c := range asked {
		if err := own.Allow(c); err != nil {
			return err
		}
	}
	a.say("dev: the flow may start %s; stored in %s", strings.Join(lines, "; "), own)
	return nil
}

func allowLine(commands []config.Command) string {
	var names, env, dirs []string
	for _, c := range commands {
		names = append(names, strconv.Quote(c.Command))
		for name := range c.Env {
			env = append(env, strconv.Quote(name))
		}
		if c.Dir != "" {
			dirs = append(dirs, strconv.Quote(c.Dir))
		}
	}
	var lines []string
	for _, l := range []struct {
		setting string
		items   []string
	}{{tool.SettingAllowCommand, names}, {tool.SettingAllowEnv, env}, {tool.SettingAllowDirs, dirs}} {
		if items := slices.Compact(slices.Sorted(slices.Values(l.items))); len(items) > 0 {
			lines = append(lines, fmt.Sprintf("%s: [%s]", l.setting, strings.Join(items, ", ")))
		}
	}
	return strings.Join(lines, " and ")
}

// namedCommands returns the commands of a flow and its sub-agents that the settings neither allow nor replace, each once.
func namedCommands(cfg *config.Config, flow *plan.Flow) []config.Command {
	rule := tool.Settings{AllowCommands: cfg.AllowCommands, AllowEnv: cfg.AllowEnv, AllowDirs: cfg.AllowDirs}
	var out []config.Command
	for _, c := range flow.Connections {
		_, replaced := cfg.Connections[c.ID]
		cmd := config.Command{Command: c.Command, Args: c.Args, Dir: c.Dir}
		for _, v := range c.Env {
			if cmd.Env == nil {
				cmd.Env = map[string]string{}
			}
			cmd.Env[v.Name] = v.Value
		}
		refused, _ := rule.Refused(tool.Connection{Command: cmd.Command, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir})
		if c.Command != "" && !replaced && len(refused) > 0 && !slices.ContainsFunc(out, cmd.Equal) {
			out = append(out, cmd)
		}
	}
	for i := range flow.Agents {
		for _, cmd := range namedCommands(cfg, &flow.Agents[i]) {
			if !slices.ContainsFunc(out, cmd.Equal) {
				out = append(out, cmd)
			}
		}
	}
	return out
}

// commandLine is a command for people: all of it, and nothing that a terminal would obey.
func commandLine(c config.Command) string {
	var words []string
	if c.Dir != "" {
		words = append(words, "cd", word(c.Dir), "&&")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		words = append(words, strings.Trim(strconv.QuoteToASCII(name), `"`)+"="+word(c.Env[name]))
	}
	for _, w := range append([]string{c.Command}, c.Args...) {
		words = append(words, word(w))
	}
	return strings.Join(words, " ")
}

func word(w string) string {
	if ascii := strconv.QuoteToASCII(w); ascii != `"`+w+`"` {
		return ascii
	}
	return plaintext.ShellQuote(w)
}

func (a *app) addSecret(l source.InlineSecret) {
	a.secrets = append(a.secrets, l)
	if !l.File || strings.Contains(l.Value, "-----BEGIN") { // else it may be a path, which errors name
		a.mask.Add(l.Value)
	}
}

// sendSecrets sends the secrets in the flow's document to the worker that -dev has started, or fails without one.
func (a *app) sendSecrets(ctx context.Context) error {
	if len(a.secrets) == 0 {
		return nil
	}
	var names []string
	for i := range a.secrets {
		l := &a.secrets[i]
		names = append(names, source.Quote(l.Ref))
		if l.File && !strings.Contains(l.Value, "-----BEGIN") {
			path, err := filepath.Abs(l.Value) // the worker may run elsewhere
			if err != nil {
				return usage.Errorf("%s: %v", l.Ref, err)
			}
			l.Value = path
		}
	}
	if a.dev == nil || a.dev.Ready == "" {
		return usage.Errorf("the document contains the secrets %s, and the worker of this task queue was not started by -dev; "+
			"replace them by references and configure the worker as the warnings say, or stop that worker", strings.Join(names, ", "))
	}
	if err := config.SendSecrets(ctx, a.dev.Ready+config.SecretsFile, a.secrets); err != nil {
		return fmt.Errorf("send the secrets of the document to the worker: %w", err)
	}
	a.say("dev: sent the secrets of the document to the worker, which keeps them in memory: %s", strings.Join(names, ", "))
	return nil
}
