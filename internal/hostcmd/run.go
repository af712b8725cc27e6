// Package hostcmd is the host command. It reads flags, wires the packages of a
// host to the operating system, and prints for people and for scripts.
package hostcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/openbot-build/openbot-go/publicnet"
)

// Env is what a run gets from outside. Stdout and Stderr are required.
type Env struct {
	Stdout, Stderr io.Writer
	Below          publicnet.Below // under the guard; zero is the real network
}

// Exit codes of Run.
const (
	exitOK      = 0
	exitFailed  = 1 // a fault was found, or the command could not do its work
	exitBadCall = 2 // unknown flag, missing argument, bad value

	exitStopped = 130 // stopped before it was done, as shells count SIGINT
)

type commandLine struct {
	ClientDocument clientDocumentCommand `cmd:"" name:"client-document" help:"Write or check the document that authorization servers know a host by."`

	Version kong.VersionFlag `help:"Print the version."`
}

const description = `The tool of those who build an agent host, by OpenBot App Protocol V1.1.

Start with:

  host client-document --id https://host.example.com/client.json --name "My Host" > client.json
  host client-document --id https://host.example.com/client.json --check

Exit status: 0 done; 1 a fault was found or the work failed; 2 the command line is wrong; 130 stopped before the end.`

// command is what each sub-command does. Errors are printed by Run.
type command interface {
	run(ctx context.Context, env *Env) error
}

// errFaults says that faults were found and printed; nothing is left to say.
var errFaults = errors.New("faults were found")

// Run runs the command with args (without the program's name) until it is done
// or ctx ends, and gives the exit code.
func Run(ctx context.Context, args []string, env *Env) int {
	cmd, code, err := parse(args, env)
	if err != nil {
		help := "host -h"
		if p, ok := errors.AsType[*kong.ParseError](err); ok && p.Context != nil && p.Context.Selected() != nil {
			help = "host " + p.Context.Selected().Name + " -h"
		}
		fmt.Fprintf(env.Stderr, "host: %s (%s shows how)\n", strings.Join(strings.Fields(err.Error()), " "), help)
		return exitBadCall
	}
	if cmd == nil {
		return code // help was asked for and printed
	}
	var bad *badCall
	switch err := cmd.run(ctx, env); {
	case err == nil:
		return exitOK
	case errors.Is(err, errFaults):
		return exitFailed
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		fmt.Fprintln(env.Stderr, "host: stopped")
		return exitStopped
	default:
		for line := range strings.Lines(err.Error() + "\n") {
			fmt.Fprintf(env.Stderr, "host: %s", line)
		}
		if errors.As(err, &bad) {
			return exitBadCall
		}
		return exitFailed
	}
}

// badCall is a command line that makes no sense.
type badCall struct{ msg string }

func (b *badCall) Error() string { return b.msg }

// helpShown carries the exit code out of kong once it has printed help.
type helpShown struct{ code int }

// parse reads the command line. A nil command means that help was printed.
func parse(args []string, env *Env) (cmd command, code int, err error) {
	var line commandLine
	parser, err := kong.New(&line,
		kong.Name("host"),
		kong.Description(description),
		kong.Vars{"version": "host " + version()},
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { panic(helpShown{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if r := recover(); r != nil {
			shown, ok := r.(helpShown)
			if !ok {
				panic(r)
			}
			cmd, code, err = nil, shown.code, nil
		}
	}()
	kctx, err := parser.Parse(args)
	if err != nil {
		return nil, 0, err
	}
	name, _, _ := strings.Cut(kctx.Command(), " ")
	return map[string]command{"client-document": &line.ClientDocument}[name], 0, nil
}

// version is that of the module the program was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
