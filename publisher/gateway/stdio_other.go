//go:build !unix

package gateway

import "os/exec"

func ownGroup(*exec.Cmd) {}

// Systems without process groups and signals: the process alone is killed.
func terminateGroup(*exec.Cmd) {}
func killGroup(cmd *exec.Cmd)  { _ = cmd.Process.Kill() } // it may be gone already
