// Command publisher publishes apps for agent hosts: it serves them, checks
// them, writes them as files, and writes a configuration to start from. Run
// publisher -h for the manual.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/openbot-build/openbot-go/internal/publishercmd"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return publishercmd.Run(ctx, os.Args[1:], &publishercmd.Env{
		Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
}
