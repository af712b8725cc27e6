// Command crawler checks and indexes public apps and serves the index: it
// crawls, answers queries, takes addresses, and explains why something is or
// is not listed. Run crawler -h for the manual.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/openbot-build/openbot-go/internal/crawlercmd"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return crawlercmd.Run(ctx, os.Args[1:], &crawlercmd.Env{
		Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
}
