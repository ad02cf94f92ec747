package tool

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"weft/activities/address"
	"weft/activities/contract"
	"weft/workflows/plan"
)

// allowed returns the addresses that URLs of flows and runs may have.
func (s *Settings) allowed() address.Allowed {
	return address.Allowed{Private: s.AllowPrivate, Loopback: s.AllowLoopback, Hosts: s.AllowHosts}
}

// refusedFailure returns the failure of a connection whose address is not allowed.
func refusedFailure(r *address.RefusedError, id string) *contract.Failure {
	settings := []string{fmt.Sprintf("%s: [%q]", SettingAllowHosts, r.Host)}
	if r.Loopback() {
		settings = append(settings, SettingAllowLoopback+": true (the worker's own machine)")
	}
	settings = append(settings, SettingAllowPrivate+": true (all such addresses)")
	return connectionFailure(fmt.Sprintf("connection %q: %s, which is not allowed in a url supplied by a flow or a run", id, r.Error()), allowRemedy(settings...))
}

// Refused lists the parts of a flow's command that are not allowed, and the settings that allow them. Arguments are not checked.
func (s *Settings) Refused(c Connection) (parts, settings []string) {
	add := func(text, setting, value string) {
		parts = append(parts, text)
		settings = append(settings, fmt.Sprintf("%s: [%q]", setting, value))
	}
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
	}
	if !has(s.AllowCommands, c.Command) {
		add(fmt.Sprintf("the command %q started", c.Command), SettingAllowCommand, c.Command)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if !has(s.AllowEnv, name) {
			add(fmt.Sprintf("the variable %s set for the command %q", name, c.Command), SettingAllowEnv, name)
		}
	}
	if c.Dir != "" && !slices.ContainsFunc(s.AllowDirs, func(dir string) bool { return isWithin(realPath(dir), realPath(c.Dir)) }) {
		add(fmt.Sprintf("the command %q started in %q", c.Command, c.Dir), SettingAllowDirs, c.Dir)
	}
	return parts, settings
}

// realPath returns a path without symbolic links and dots. Links are resolved only if the path exists.
func realPath(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return filepath.Clean(path)
}

func isWithin(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// checkCommandAllowed returns a failure unless the operator or the worker's user has allowed a flow's command.
func (t *Tools) checkCommandAllowed(c plan.Connection) error {
	conn := suppliedConnection(c)
	if conn.Dir != "" && (!filepath.IsAbs(conn.Dir) || strings.ContainsRune(c.Command, filepath.Separator) && !filepath.IsAbs(c.Command)) {
		return connectionFailure(fmt.Sprintf("connection %q: command %q or its directory %q is a relative path", c.ID, c.Command, conn.Dir), "write absolute paths, or a command that is found in PATH")
	}
	parts, settings := t.settings.Refused(conn)
	if len(parts) == 0 {
		return nil
	}
	remedy := fmt.Sprintf("to allow it, set in weft.yaml: %s, or configure %s.%s with the command", strings.Join(settings, " and "), SettingConnections, c.ID)
	if allow := t.settings.AllowCommand; allow != nil {
		if allow(conn) {
			return nil
		}
		remedy += "; on your own machine start the run with: starter -dev -allow-commands"
	}
	return connectionFailure(fmt.Sprintf("connection %q: the flow wants %s, which the operator has not allowed", c.ID, strings.Join(parts, " and ")), remedy)
}
