package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"weft/activities/tool"
	"weft/starter/plaintext"
	"weft/starter/usage"
	"weft/worker/config"
	"weft/workflows/plan"
)

// mayStart asks whether the flow may start its commands on this machine, and stores what is allowed.
func (a *app) mayStart(cfg *config.Config, flow *plan.Flow) error {
	if !a.flags.dev {
		return a.notOwn(cfg, flow)
	}
	own, err := config.OwnCommands(a.env)
	if err != nil {
		return usage.Errorf("%v; allowed commands are stored there", err)
	}
	var asked []config.Command
	var lines []string
	for _, c := range namedCommands(cfg, flow) {
		if !own.Allowed(c) {
			asked = append(asked, c)
			lines = append(lines, commandLine(c))
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if !a.flags.allowCommands && !a.agreed(lines) {
		return usage.Errorf("the flow starts commands on this machine that you have not allowed: %s; allow them with -dev -allow-commands, or set in weft.yaml: %s",
			strings.Join(lines, "; "), allowLine(asked))
	}
	for _, c := range asked {
		if err := own.Allow(c); err != nil {
			return err
		}
	}
	a.say("dev: the flow may start %s; %s remembers that", strings.Join(lines, "; "), own)
	return nil
}

// notOwn refuses a flag that cannot reach the worker: only its operator can allow commands.
func (a *app) notOwn(cfg *config.Config, flow *plan.Flow) error {
	if !a.flags.allowCommands {
		return nil
	}
	named := namedCommands(cfg, flow)
	if len(named) == 0 {
		return usage.Errorf("-allow-commands needs -dev, and the flow names no commands")
	}
	return usage.Errorf("-allow-commands needs -dev; for another worker set in its weft.yaml: %s", allowLine(named))
}

// allowLine is the line of weft.yaml that allows commands.
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

// refusedOf lists what the settings do not allow of a command, as [tool.Settings.Refused] does.
func refusedOf(cfg *config.Config, c config.Command) (what, lines []string) {
	rule := tool.Settings{AllowCommands: cfg.AllowCommands, AllowEnv: cfg.AllowEnv, AllowDirs: cfg.AllowDirs}
	return rule.Refused(tool.Connection{Command: c.Command, Args: c.Args, Env: c.Env, Dir: c.Dir})
}

// agreed asks on a terminal, and reports false elsewhere.
func (a *app) agreed(lines []string) bool {
	if in, ok := a.stdin.(*os.File); !ok || !terminal(in) || !terminal(a.stderr) {
		return false
	}
	a.say("dev: the flow starts on this machine:\n\t%s", strings.Join(lines, "\n\t"))
	fmt.Fprint(a.stderr, "dev: allow it? [y/N] ")
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "y" || answer == "yes")
}

// namedCommands returns the commands of a flow and its sub-agents that the settings neither allow nor replace, each once.
func namedCommands(cfg *config.Config, flow *plan.Flow) []config.Command {
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
		refused, _ := refusedOf(cfg, cmd)
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

// word is a word of a command for people.
func word(w string) string {
	if ascii := strconv.QuoteToASCII(w); ascii != `"`+w+`"` {
		return ascii
	}
	return plaintext.ShellQuote(w)
}
