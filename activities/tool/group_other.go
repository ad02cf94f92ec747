//go:build !unix

package tool

import "os/exec"

// setProcessGroup does nothing: the system has no process groups.
func setProcessGroup(*exec.Cmd) {}

// signalGroup ends the command itself; the system cannot end what it started.
func signalGroup(cmd *exec.Cmd, _ bool) { _ = cmd.Process.Kill() }

// signalCode is an exit code for a program that ended without one.
func signalCode(*exec.ExitError) int { return 1 }
