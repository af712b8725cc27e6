// Command host is the tool of those who build an agent host: so far it writes
// and checks the document by which a host makes itself known to authorization
// servers. Run host -h for the manual.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/openbot-build/openbot-go/internal/hostcmd"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return hostcmd.Run(ctx, os.Args[1:], &hostcmd.Env{Stdout: os.Stdout, Stderr: os.Stderr})
}
