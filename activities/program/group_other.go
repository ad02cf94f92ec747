//go:build !unix

package program

import "os/exec"

// SetGroup does nothing: the system has no process groups.
func SetGroup(*exec.Cmd) {}

// SignalGroup ends the command itself; the system cannot end what it started.
func SignalGroup(cmd *exec.Cmd, _ bool) { _ = cmd.Process.Kill() }

// signalCode is an exit code for a program that ended without one.
func signalCode(*exec.ExitError) int { return 1 }
