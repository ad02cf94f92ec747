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
	a.setStage("processes that -dev has started stop by themselves")
	d, err := dev.Join(ctx, dev.Options{Settings: a.settings(), Say: a.say, Connect: a.connect, Interruptible: a.interruptible})
	if err != nil {
		d.Close()
		return err
	}
	a.dev, a.env, a.cfg = d, d.Settings.Env, nil // the settings have changed
	a.setStage("")
	return nil
}

// self returns the beginning of a command line that uses the same server and settings as this one.
func (a *app) self() string {
	return "starter " + plaintext.If(a.flags.dev, "-dev ") + plaintext.If(a.flags.dev && a.flags.config != "", "-config %s ", plaintext.ShellQuote(a.flags.config))
}

// detachedText reports what happens to a run that is no longer followed, and how to follow it again.
func (a *app) detachedText(id string) string {
	again := a.self() + "follow " + plaintext.ShellQuote(id)
	if a.dev == nil || !a.dev.Embedded && !a.dev.Helped {
		return "detached; the run continues; follow it with: " + again
	}
	what := cmp.Or(plaintext.If(a.dev.Embedded, "the embedded Temporal"), "the worker that -dev started")
	return "detached; " + what + " stops with the last command that uses it, and the run is paused; continue with: " + again
}

// What to do after adding a setting that the worker of -dev lacks: if the command failed, and if it follows a waiting run.
const (
	runAgain   = "run the command again when no other starter -dev is running"
	startAgain = "stop every starter -dev, including this one, with Ctrl-C, so that the next one starts a worker that has it"
)

var lacksVariable = regexp.MustCompile(`set (\w+)( or \w+_FILE)? in the worker's environment(?: \(not the client's\) and restart the worker)?`)

// localText rewrites a remedy for a worker that -dev has started: its settings are the ones of this command.
func (a *app) localText(text, again string) string {
	if a.dev == nil || !a.dev.Embedded && !a.dev.Helped {
		return text
	}
	file := config.DefaultFile
	if a.cfg != nil && a.cfg.File != "" {
		file = a.cfg.File
	}
	local := strings.NewReplacer("in the worker's environment (not the client's), or model in its weft.yaml, and restart the worker", "in this environment, or model in "+file+", and "+again,
		"set in the worker's weft.yaml", "set in "+file, "the worker's weft.yaml", file, "the worker's environment", "this environment", "on the worker", "here")
	return local.Replace(lacksVariable.ReplaceAllString(text, "export $1=VALUE, and "+again))
}

// localFailure applies [app.localText] to a failure.
func (a *app) localFailure(f *contract.Failure) *contract.Failure {
	out := *f
	out.Text, out.Remedy, out.Diagnostics = a.localText(f.Text, runAgain), a.localText(f.Remedy, runAgain), nil
	for _, text := range f.Diagnostics {
		out.Diagnostics = append(out.Diagnostics, a.localText(text, runAgain))
	}
	return &out
}

// localRequest applies [app.localText] to the text of a request, which the commands that answer it follow.
func (a *app) localRequest(text string) string {
	out := a.localText(text, startAgain)
	if out != text && !strings.Contains(out, startAgain) {
		out += "; then " + startAgain
	}
	return out
}

// approveCommands asks whether the flow may start its commands on this machine, and records the allowed ones.
func (a *app) approveCommands(cfg *config.Config, flow *plan.Flow) error {
	if !a.flags.dev && !a.flags.allowCommands {
		return nil
	}
	disallowed := disallowedCommands(cfg, flow)
	switch {
	case a.flags.dev:
	case len(disallowed) == 0:
		return usage.Errorf("-allow-commands requires -dev, and the flow has no commands")
	default:
		return usage.Errorf("-allow-commands requires -dev; for another worker set in its weft.yaml: %s", allowLine(disallowed))
	}
	own, err := config.OwnCommands(a.env)
	if err != nil {
		return usage.Errorf("%v; allowed commands are stored there", err)
	}
	var unapproved []config.Command
	var lines []string
	for _, c := range disallowed {
		if !own.Allowed(c) {
			unapproved = append(unapproved, c)
			lines = append(lines, commandLine(c))
		}
	}
	if len(unapproved) == 0 {
		return nil
	}
	if !a.flags.allowCommands && a.interactive() {
		a.say("dev: the flow starts on this machine:\n\t%s", strings.Join(lines, "\n\t"))
	}
	if !a.flags.allowCommands && !slices.Contains([]string{"y", "yes"}, strings.ToLower(a.ask("dev: allow it? [y/N] "))) {
		return usage.Errorf("the flow starts commands on this machine that you have not allowed: %s; allow them with -dev -allow-commands, or set in weft.yaml: %s",
			strings.Join(lines, "; "), allowLine(unapproved))
	}
	for _, c := range unapproved {
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

// disallowedCommands returns the commands of a flow and its sub-agents that the settings neither allow nor replace, without duplicates.
func disallowedCommands(cfg *config.Config, flow *plan.Flow) []config.Command {
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
		for _, cmd := range disallowedCommands(cfg, &flow.Agents[i]) {
			if !slices.ContainsFunc(out, cmd.Equal) {
				out = append(out, cmd)
			}
		}
	}
	return out
}

// commandLine formats a complete command, without control characters.
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
	if !l.File || strings.Contains(l.Value, "-----BEGIN") { // otherwise it may be a path, which errors may contain
		a.mask.Add(l.Value)
	}
}

// sendSecrets sends the inline secrets of the flow's document to the worker that -dev has started; it fails without one.
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
			"replace them with references and configure the worker as the warnings describe, or stop that worker", strings.Join(names, ", "))
	}
	if err := config.SendSecrets(ctx, a.dev.Ready+config.SecretsFile, a.secrets); err != nil {
		return fmt.Errorf("send the secrets of the document to the worker: %w", err)
	}
	a.say("dev: sent the secrets of the document to the worker, which keeps them in memory: %s", strings.Join(names, ", "))
	return nil
}
