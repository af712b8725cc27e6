package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("RUN_HOST") != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// The program hands its arguments on and gives the exit code back.
func TestExitCodes(t *testing.T) {
	for args, want := range map[string]int{
		"-h": 0, "client-document --bogus": 2, "client-document --id https://host.invalid/client.json --check": 1, "client-document --id https://host.example.com/client.json --name Host": 0,
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(args)...) // this test's own program
		cmd.Env = append(os.Environ(), "RUN_HOST=1")
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("host %s: exit %d, want %d (%v): %s", args, got, want, err, out)
		}
	}
}
