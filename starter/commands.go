package main

import (
	"context"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// command is a row of the table of commands.
type command struct {
	// name is "" for the run of a flow, which is what flags without a command mean.
	name string
	// args and does are for the help.
	args, does string
	// least and most bound the number of arguments; most -1 is any number.
	least, most int
	// flags are those that the command understands.
	flags []string
	run   func(a *app, ctx context.Context, args []string) error
}

// Sets of flags.
var (
	readFlags   = []string{"dialect", "profile", "components", "component", "config"}
	checkFlags  = append(slices.Clone(readFlags), "output")
	agentFlags  = []string{"profile", "config", "output"}
	graphFlags  = append(slices.Clone(readFlags), "svg", "id", "dev")
	remoteFlags = []string{"config", "dev"}
	outputFlags = append(slices.Clone(remoteFlags), "output")
	whyFlags    = outputFlags
	forkFlags   = append(slices.Clone(readFlags), "priority", "tenant", "weight", "at", "set", "instead", "flow", "script", "model", "id", "detach", "task-queue", "max-steps", "output", "dev")
	impactFlags = append(slices.Clone(readFlags), "flow", "name", "output", "dev")
	startFlags  = append(slices.Clone(readFlags), "flow", "input", "input-json", "image", "param", "params", "scope", "state", "script", "model", "id", "detach", "session", "on-error", "task-queue", "max-steps", "budget", "output", "dev", "allow-commands", "priority", "tenant", "weight")
	listFlags   = append(slices.Clone(outputFlags), "all", "limit", "name", "status", "waiting")
	answerFlag  = append(slices.Clone(outputFlags), "by", "signal")
	serveFlags  = append(slices.Clone(remoteFlags), "listen", "agents", "task-queue")
	endFlags    = append(slices.Clone(remoteFlags), "reason")
)

// commands returns the table of all commands; what help says beyond it is in help.go.
func commands() []command {
	return []command{
		{"", "-flow FILE [-input TEXT|@FILE|-]", "start a run and follow it to its result", 0, 0, startFlags, (*app).start},
		{"validate", "FILE|FOLDER...", "say what is wrong with flows", 1, -1, checkFlags, (*app).validate},
		{"agents", "FOLDER", "list the agents of a folder, with their schemas and what is wrong with them", 1, 1, agentFlags, (*app).agents},
		{"graph", "FILE|-id ID", "draw a flow, or how far a run has come", 0, 1, graphFlags, (*app).graph},
		{"list", "[-waiting]", "list open runs, or all, or what they wait for", 0, 0, listFlags, (*app).list},
		{"follow", "ID", "follow a run to its result", 1, 1, outputFlags, (*app).follow},
		{"status", "ID", "show where a run stands", 1, 1, outputFlags, (*app).status},
		{"why", "ID [NODE]", "say why nodes ran, did not run, or wait", 1, 2, whyFlags, (*app).why},
		{"fork", "ID -at NODE", "start a run that goes on from a node of another", 1, 1, forkFlags, (*app).fork},
		{"compare", "ID ID", "show two runs side by side: outputs, tokens, time", 2, 2, outputFlags, (*app).compare},
		{"impact", "-flow FILE", "say what an edited flow means to the open runs of that flow", 0, 0, impactFlags, (*app).impact},
		{"resume", "ID [-prompt TEXT|@FILE|-]", "give a session its next prompt, and wait for the result; without -prompt talk on", 1, 1, append(slices.Clone(outputFlags), "prompt", "image", "key", "by", "detach"), (*app).resume},
		{"stop", "ID [-reason TEXT]", "end a session and the turn under way", 1, 1, append(slices.Clone(outputFlags), "reason", "by"), (*app).stop},
		{"transcript", "ID [THREAD]", "print what was said in a run", 1, 2, outputFlags, (*app).transcript},
		{"record", "ID", "print a run that has ended as a script with what it is to do", 1, 1, remoteFlags, (*app).record},
		{"test", "FILE...", "play recorded runs again without network, and say where they differ", 1, -1, append(slices.Clone(checkFlags), "flow"), (*app).test},
		{"state", "ID", "print the values that a run's nodes share", 1, 1, remoteFlags, (*app).state},
		{"requests", "ID", "list what a run waits for, with the commands that answer", 1, 1, outputFlags, (*app).requests},
		{"audit", "ID", "print what a run asked, and who answered what", 1, 1, outputFlags, (*app).audit},
		{"confirm", "ID [REQUEST] -yes|-no", "say whether a tool may be called", 1, 2, append(slices.Clone(answerFlag), "yes", "no", "reason", "arguments", "remember"), (*app).confirm},
		{"tool-result", "ID [REQUEST] -result JSON|@FILE|-", "give the result of a tool that a client runs, or its -error", 1, 2, append(slices.Clone(answerFlag), "result", "error"), (*app).toolResult},
		{"retry", "ID [REQUEST]", "try again what an operator has mended", 1, 2, append(slices.Clone(answerFlag), "give-up", "reason"), (*app).retry},
		{"message", "ID [TEXT|@FILE|-]", "answer a run's question, or tell it something", 1, 2, append(slices.Clone(answerFlag), "node", "request", "key"), (*app).message},
		{"result", "ID", "print the result of a run that has ended", 1, 1, outputFlags, (*app).result},
		{"cancel", "ID", "cancel a run and all that it started", 1, 1, remoteFlags, (*app).cancel},
		{"terminate", "ID [-reason TEXT]", "end a run at once", 1, 1, endFlags, (*app).terminate},
		{"schedule", "create|list|show|pause|unpause|trigger|delete [NAME]", "start runs of a flow at times", 1, 2, slices.Concat(outputFlags, []string{"limit"}, createFlags), (*app).schedule},
		{"serve", "", "answer HTTP requests: start runs, show them, answer what they wait for", 0, 0, serveFlags, (*app).serve},
		{"completion", "bash|zsh|fish", "print a completion script for a shell", 1, 1, nil, (*app).completion},
		{"version", "", "print the version", 0, 0, nil, (*app).version},
		{"help", "[COMMAND]", "print the help of all, or of one command", 0, 1, nil, (*app).help},
	}
}

// label is what a command is called where it is spoken of.
func (c *command) label() string {
	if c.name == "" {
		return "run"
	}
	return c.name
}

// usage is a command's line.
func (c *command) usage() string {
	return strings.TrimSpace("starter " + strings.TrimSpace(c.name+" "+c.args))
}

// parse reads flags and arguments in any order.
func (a *app) parse(args []string) (*command, []string, error) {
	given, rest, err := a.flags.parse(args)
	if err != nil {
		return nil, nil, err
	}
	table, name := commands(), ""
	if len(rest) > 0 {
		name, rest = rest[0], rest[1:]
	}
	if a.flags.help || len(args) == 0 {
		given, rest = nil, nil
		if name != "" && name != "help" {
			rest = []string{name}
		}
		name = "help"
	}
	var names []string
	for i := range table {
		if table[i].name == name {
			if err := table[i].check(given, rest); err != nil {
				return nil, nil, err
			}
			return &table[i], rest, table[i].checkOutput(a.flags.output)
		}
		names = append(names, table[i].name)
	}
	if near := source.NewSuggester(names[1:]).Nearest(name); near != "" {
		return nil, nil, bad("there is no command %q; did you mean %s?", name, near)
	}
	return nil, nil, bad("there is no command %q; to run a flow, write -flow %s; commands: %s", name, name, strings.Join(names[1:], ", "))
}

// outputs are what -output may be.
func (c *command) outputs() []string {
	if own := ownOutputs[c.label()]; own != nil {
		return own
	}
	return outputs
}

// checkOutput refuses an output that the command does not have.
func (c *command) checkOutput(given string) error {
	if all := c.outputs(); !slices.Contains(all, given) {
		last := len(all) - 1
		return bad("-output is %q, want %s or %s", given, strings.Join(all[:last], ", "), all[last])
	}
	return nil
}

// check refuses flags and arguments that a command does not take.
func (c *command) check(given, args []string) error {
	label := c.label()
	if c.name == "" {
		label = "a run"
	}
	for _, f := range given {
		if !slices.Contains(c.flags, f) {
			return bad("-%s means nothing for %s; leave it out", f, label)
		}
	}
	switch {
	case len(args) < c.least:
		return bad("%s wants an argument; usage: %s", label, c.usage())
	case c.most >= 0 && len(args) > c.most:
		return bad("%s does not take %q; usage: %s", label, args[c.most], c.usage())
	}
	return nil
}
