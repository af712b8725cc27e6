// Package crawlercmd is the crawler command: run, serve, add, why and check.
// It reads flags, wires crawl, the store, search and the API to the operating
// system, and prints for people and for scripts.
package crawlercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	Below          publicnet.Below // under the guard; zero is the real network
}

// Exit codes of Run.
const (
	exitOK      = 0
	exitFailed  = 1   // the command could not do its work, or why or check found nothing listed
	exitBadCall = 2   // unknown flag, missing argument, bad value
	exitStopped = 130 // interrupted before the work was done; run and serve end with 0
)

// The command line. Flags fall back to OPENBOT_… variables.
type commandLine struct {
	Run   runCommand   `cmd:"" help:"Crawl and serve the index, in one process."`
	Serve serveCommand `cmd:"" help:"Serve the index only."`
	Add   addCommand   `cmd:"" help:"Add addresses to be visited next."`
	Why   whyCommand   `cmd:"" help:"Tell why an address is, or is not, in the index."`
	Check checkCommand `cmd:"" help:"Dry run: judge an address as a crawl would, and store nothing."`

	Version kong.VersionFlag `help:"Print the version and end."`
}

const description = `Check and index public apps for agent hosts, and serve the index, by OpenBot App Protocol V1.1.

Start with:

  crawler run --db index.db --listen 127.0.0.1:8080 --about https://crawler.example.com/ --contact crawler@example.com
  crawler add --db index.db apps.example.com
  crawler why --db index.db apps.example.com

Each flag can be given as a variable: OPENBOT_ and the flag's name in capitals, for instance OPENBOT_DB for --db. A flag on the command line wins.

Exit status: 0 done; 1 the work failed, or why or check found nothing listed; 2 the command line is wrong; 130 stopped before it was done. A stop is no failure of run and serve.`

// command is what each sub-command does. Errors are printed by Run.
type command interface {
	run(ctx context.Context, env *Env) error
}

// errNotListed says that the answer of why or check is no, and was printed.
var errNotListed = errors.New("not listed")

// Run runs the command with args (without the program's name) until it is done
// or ctx ends, and gives the exit code. For run and serve ctx ending is a
// request to stop and no failure.
//
// Whatever is written to Stdout and Stderr has no control characters but ends
// of lines: much of it comes from strangers.
func Run(ctx context.Context, args []string, env *Env) int {
	e := *env
	if e.Getenv == nil {
		e.Getenv = func(string) string { return "" }
	}
	if e.Stdin == nil {
		e.Stdin = strings.NewReader("")
	}
	e.Stdout, e.Stderr = plainWriter{e.Stdout}, plainWriter{e.Stderr}
	cmd, code, err := parse(args, &e)
	if err != nil {
		fmt.Fprintf(e.Stderr, "crawler: %s\n", oneLine(err))
		return exitBadCall
	}
	if cmd == nil {
		return code // help was asked for and printed
	}
	return end(ctx, cmd, cmd.run(ctx, &e), e.Stderr)
}

// end tells how a command ended, and gives the exit code.
func end(ctx context.Context, cmd command, err error, stderr io.Writer) int {
	stopped := ctx.Err() != nil && errors.Is(err, context.Canceled)
	_, bad := errors.AsType[*badCall](err)
	switch {
	case err == nil, stopped && serves(cmd):
		return exitOK
	case errors.Is(err, errNotListed):
		return exitFailed
	case stopped:
		fmt.Fprintln(stderr, "crawler: stopped")
		return exitStopped
	}
	text := strings.TrimRight(err.Error(), "\n")
	if _, told := errors.AsType[*faultText](err); !told {
		if fault := storeFault(err); fault != "" {
			text = fault
		}
	}
	for line := range strings.Lines(text) {
		fmt.Fprintf(stderr, "crawler: %s\n", strings.TrimRight(line, "\n"))
	}
	if bad {
		return exitBadCall
	}
	return exitFailed
}

// serves reports whether a command works until it is stopped.
func serves(cmd command) bool {
	switch cmd.(type) {
	case *runCommand, *serveCommand:
		return true
	}
	return false
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
		kong.Name("crawler"),
		kong.Description(description),
		kong.Vars{"version": "crawler " + version()},
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { panic(helpShown{code}) }),
		kong.Resolvers(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
			if v := env.Getenv(envName(flag.Name)); v != "" && !asks(flag) {
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
		return nil, 0, misuse(err)
	}
	name, _, _ := strings.Cut(kctx.Command(), " ")
	return map[string]command{"run": &line.Run, "serve": &line.Serve, "add": &line.Add, "why": &line.Why, "check": &line.Check}[name], 0, nil
}

// asks reports whether a flag is a question of its own and no setting.
func asks(flag *kong.Flag) bool { return flag.Name == "help" || flag.Name == "version" }

// misuse says what is wrong with a command line, all that is missing at once,
// and where the manual's page on it is.
func misuse(err error) error {
	manual, text := "crawler -h", err.Error()
	if e, ok := errors.AsType[*kong.ParseError](err); ok && e.Context != nil && e.Context.Selected() != nil {
		node := e.Context.Selected()
		manual = "crawler " + node.Name + " -h"
		var missing []string
		for _, flag := range node.Flags {
			if flag.Required && !flag.Set {
				missing = append(missing, flag.Summary())
			}
		}
		for _, arg := range node.Positional {
			if arg.Required && !arg.Set {
				missing = append(missing, strings.ToUpper(arg.Name))
			}
		}
		if missing != nil && (strings.HasPrefix(text, "missing ") || strings.HasPrefix(text, "expected ")) {
			text = "missing: " + strings.Join(missing, ", ")
		}
	}
	return fmt.Errorf("%s (%s shows how)", text, manual)
}

// envName is the variable that stands for a flag.
func envName(flag string) string {
	return "OPENBOT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// newLogger writes to w in the chosen form.
func newLogger(w io.Writer, format string, verbose bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		opts.Level = slog.LevelDebug
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// version is the module's, as built; "devel" when it was built outside of one.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
