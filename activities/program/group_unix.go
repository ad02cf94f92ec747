//go:build unix

package program

import (
	"os/exec"
	"syscall"
)

// SetGroup starts a command as the leader of a process group.
func SetGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// SignalGroup asks the group of a command to end, or with force ends it.
func SignalGroup(cmd *exec.Cmd, force bool) {
	sig := syscall.SIGTERM
	if force {
		sig = syscall.SIGKILL
	}
	// An error means that nobody is left.
	_ = syscall.Kill(-cmd.Process.Pid, sig)
}

// signalCode is the exit code of a program that a signal ended, as Python gives it.
func signalCode(e *exec.ExitError) int {
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return -int(s.Signal())
	}
	return 1
}
