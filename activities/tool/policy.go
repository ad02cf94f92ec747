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

// allowed is where URLs may lead that flows and runs supply.
func (s *Settings) allowed() address.Allowed {
	return address.Allowed{Private: s.AllowPrivate, Loopback: s.AllowLoopback, Hosts: s.AllowHosts}
}

// refused is the failure of a connection at an address that is not allowed.
func refused(r *address.RefusedError, id string) *contract.Failure {
	settings := []string{fmt.Sprintf("%s: [%q]", SettingAllowHosts, r.Host)}
	if r.Loopback() {
		settings = append(settings, SettingAllowLoopback+": true (the worker's own machine)")
	}
	settings = append(settings, SettingAllowPrivate+": true (all such addresses)")
	return connectionFailure(fmt.Sprintf("connection %q: %s; a url that a flow or a run supplies may not lead there", id, r.Error()), allowRemedy(settings...))
}

// Refused lists what the settings do not allow of a flow's command, and the settings that would. Arguments are not looked at.
func (s *Settings) Refused(c Connection) (what, settings []string) {
	add := func(text, setting, value string) {
		what = append(what, text)
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
	return what, settings
}

// realPath is a path without links and dots, as far as it is there.
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

// checkCommandAllowed asks whether the operator, or the worker's user, has allowed a flow's command.
func (t *Tools) checkCommandAllowed(c plan.Connection) error {
	conn := supplied(c)
	if conn.Dir != "" && (!filepath.IsAbs(conn.Dir) || strings.ContainsRune(c.Command, filepath.Separator) && !filepath.IsAbs(c.Command)) {
		return connectionFailure(fmt.Sprintf("connection %q: the flow wants the command %q started in %q", c.ID, c.Command, conn.Dir), "write absolute paths, or a command that is found in PATH")
	}
	what, settings := t.settings.Refused(conn)
	if len(what) == 0 {
		return nil
	}
	remedy := fmt.Sprintf("to allow it set in weft.yaml: %s, or configure %s.%s with the command", strings.Join(settings, " and "), SettingConnections, c.ID)
	if own := t.settings.AllowCommand; own != nil {
		if own(conn) {
			return nil
		}
		remedy += "; on your own machine start the run with: starter -dev -allow-commands"
	}
	return connectionFailure(fmt.Sprintf("connection %q: the flow wants %s, which the operator has not allowed", c.ID, strings.Join(what, " and ")), remedy)
}
