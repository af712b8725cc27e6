// Package publishercmd is the publisher command: serve, check, build and init.
// It reads flags and the configuration file, wires the publisher package to the
// operating system, and prints for people and for scripts.
package publishercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/openbot-build/openbot-go/publicnet"
)

// Env is what a run gets from outside. Stdout and Stderr are required.
type Env struct {
	Getenv         func(string) string // nil: no environment
	Stdin          io.Reader           // nil: empty
	Stdout, Stderr io.Writer
	Below          publicnet.Below // under the guard of `check` and of what issuers are asked; zero is the real network
}

// Exit codes of Run.
const (
	exitOK      = 0
	exitFailed  = 1 // a fault was found, or the command could not do its work
	exitBadCall = 2 // unknown flag, missing argument, bad value

	exitStopped = 130 // stopped before it was done, as shells count SIGINT
)

// The command line. Flags fall back to OPENBOT_… variables.
type commandLine struct {
	Serve serveCommand `cmd:"" help:"Serve the apps of a configuration file."`
	Check checkCommand `cmd:"" help:"Find every fault of a catalog, a card, a published app or a configuration."`
	Build buildCommand `cmd:"" help:"Write everything as files for a static host."`
	Init  initCommand  `cmd:"" help:"Write a configuration file to start from."`

	Version kong.VersionFlag `help:"Print the version."`
}

const description = `Publish apps for agent hosts: catalog, server cards, app pages and MCP endpoints, by OpenBot App Protocol V1.1.

Start with:

  publisher init --origin https://apps.example.com
  publisher init --origin https://apps.example.com --from 'npx -y @modelcontextprotocol/server-everything'
  publisher check --config publisher.yaml
  publisher serve --config publisher.yaml

Each flag can be given as a variable: OPENBOT_ and the flag's name in capitals, for instance OPENBOT_LISTEN for --listen. A flag on the command line wins.

Exit status: 0 done; 1 a fault was found or the work failed, also for a file that cannot be read or a port in use; 2 the command line is wrong; 130 stopped before the end.`

// command is what each sub-command does. Errors are printed by Run.
type command interface {
	run(ctx context.Context, env *Env) error
}

// errFaults says that faults were found and printed; nothing is left to say.
var errFaults = errors.New("faults were found")

// Run runs the command with args (without the program's name) until it is done
// or ctx ends, and gives the exit code. ctx ending is a request to stop: no failure
// of serve, which has no other end, and 130 of what was not done yet.
func Run(ctx context.Context, args []string, env *Env) int {
	e := *env
	if e.Getenv == nil {
		e.Getenv = func(string) string { return "" }
	}
	if e.Stdin == nil {
		e.Stdin = strings.NewReader("")
	}
	cmd, code, err := parse(args, &e)
	if err != nil {
		help := "publisher -h"
		if p, ok := errors.AsType[*kong.ParseError](err); ok && p.Context != nil && p.Context.Selected() != nil {
			help = "publisher " + p.Context.Selected().Name + " -h"
		}
		fmt.Fprintf(e.Stderr, "publisher: %s (%s shows how)\n", oneLine(err), help)
		return exitBadCall
	}
	if cmd == nil {
		return code // help was asked for and printed
	}
	var bad *badCall
	switch err := cmd.run(ctx, &e); {
	case err == nil:
		return exitOK
	case errors.Is(err, errFaults):
		return exitFailed
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		fmt.Fprintln(e.Stderr, "publisher: stopped")
		return exitStopped
	case errors.As(err, &bad):
		fmt.Fprintf(e.Stderr, "publisher: %v\n", err)
		return exitBadCall
	default:
		for line := range strings.Lines(err.Error() + "\n") {
			fmt.Fprintf(e.Stderr, "publisher: %s", line)
		}
		return exitFailed
	}
}

// badCall is a value on the command line that cannot be used.
type badCall struct{ msg string }

func (b *badCall) Error() string { return b.msg }

func badCallf(format string, args ...any) error { return &badCall{fmt.Sprintf(format, args...)} }

// helpShown carries the exit code out of kong once it has printed help.
type helpShown struct{ code int }

// parse reads the command line. A nil command means that help was printed.
func parse(args []string, env *Env) (cmd command, code int, err error) {
	var line commandLine
	parser, err := kong.New(&line,
		kong.Name("publisher"),
		kong.Description(description),
		kong.Vars{"version": "publisher " + version()},
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { panic(helpShown{code}) }),
		kong.Resolvers(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
			if v := env.Getenv(envName(flag.Name)); v != "" && flag.Name != "version" {
				return v, nil
			}
			return nil, nil
		})),
		kong.ValueFormatter(func(v *kong.Value) string {
			switch {
			case v.Flag == nil || v.Flag.Name == "version":
				return v.Help
			case v.Flag.Name == "help":
				return "Show this help."
			}
			return strings.TrimSuffix(v.Help, ".") + " ($" + envName(v.Flag.Name) + ")."
		}),
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
	return map[string]command{"serve": &line.Serve, "check": &line.Check, "build": &line.Build, "init": &line.Init}[name], 0, nil
}

// version is that of the module the program was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// envName is the variable that stands for a flag.
func envName(flag string) string {
	return "OPENBOT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// fileError says why a file that flag names ("" for an argument) cannot be
// used. The name is said once.
func fileError(flag, name string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("there is no such file")
		}
	}
	return fmt.Errorf("%s: %w", strings.TrimSpace(flag+" "+name), err)
}

// readLimited reads a file that somebody else may have written.
func readLimited(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, limit)
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("is larger than the %d bytes that are read", limit)
	}
	return data, nil
}
