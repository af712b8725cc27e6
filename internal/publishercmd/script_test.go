package publishercmd_test

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openbot-build/openbot-go/internal/publishercmd"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"publisher": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(publishercmd.Run(ctx, os.Args[1:], &publishercmd.Env{
				Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			}))
		},
	})
}

// The command as a person and a script meet it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true})
}
