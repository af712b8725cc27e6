//go:build unix

package gateway

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the command a process group of its own, so that what it starts
// can be stopped with it, and a Ctrl-C of the publisher's terminal does not
// reach it before the publisher has finished its calls.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// A group that is gone is no error worth telling.
func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func killGroup(cmd *exec.Cmd)      { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
