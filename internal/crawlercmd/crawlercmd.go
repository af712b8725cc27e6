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
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
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
	exitFailed  = 1 // the command could not do its work, or check found no app that would be listed
	exitBadCall = 2 // unknown flag, missing argument, bad value
)

// The command line. Flags fall back to OPENBOT_… variables.
type commandLine struct {
	Run   runCommand   `cmd:"" help:"Crawl and serve the index, in one process."`
	Serve serveCommand `cmd:"" help:"Serve the index only."`
	Add   addCommand   `cmd:"" help:"Add addresses to be visited next."`
	Why   whyCommand   `cmd:"" help:"Tell why an address is, or is not, in the index."`
	Check checkCommand `cmd:"" help:"Dry run: judge an address as a crawl would, and store nothing."`
}

const description = `Check and index public apps for agent hosts, and serve the index, by OpenBot App Protocol V1.1.

Start with:

  crawler run --db index.db --listen 127.0.0.1:8080 --about https://crawler.example.com/ --contact crawler@example.com
  crawler add --db index.db apps.example.com
  crawler why --db index.db apps.example.com

Each flag can be given as a variable: OPENBOT_ and the flag's name in capitals, for instance OPENBOT_DB for --db. A flag on the command line wins.

Exit status: 0 done; 1 the work failed; 2 the command line is wrong.`

// command is what each sub-command does. Errors are printed by Run.
type command interface {
	run(ctx context.Context, env *Env) error
}

// errNotListed says that a check came out badly and was printed.
var errNotListed = errors.New("not listed")

// Run runs the command with args (without the program's name) until it is done
// or ctx ends, and gives the exit code. For run and serve ctx ending is a
// request to stop and no failure.
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
		fmt.Fprintf(e.Stderr, "crawler: %s (crawler -h shows how)\n", oneLine(err))
		return exitBadCall
	}
	if cmd == nil {
		return code // help was asked for and printed
	}
	var bad *badCall
	switch err := cmd.run(ctx, &e); {
	case err == nil:
		return exitOK
	case errors.Is(err, errNotListed):
		return exitFailed
	case errors.As(err, &bad):
		fmt.Fprintf(e.Stderr, "crawler: %v\n", err)
		return exitBadCall
	default:
		text := strings.TrimRight(err.Error(), "\n") + advice(err)
		for line := range strings.Lines(text + "\n") {
			fmt.Fprintf(e.Stderr, "crawler: %s", line)
		}
		return exitFailed
	}
}

// advice says what to do about a store that failed.
func advice(err error) string {
	switch {
	case errors.Is(err, index.ErrLocked):
		return "; stop the other process, or give another file with --db"
	case errors.Is(err, index.ErrFull):
		return "; make room and start again: nothing that was stored is lost"
	case errors.Is(err, index.ErrCorrupt):
		return "; restore a backup of the file, or give another one with --db"
	}
	return ""
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
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { panic(helpShown{code}) }),
		kong.Resolvers(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
			if v := env.Getenv(envName(flag.Name)); v != "" {
				return v, nil
			}
			return nil, nil
		})),
		kong.ValueFormatter(func(v *kong.Value) string {
			if v.Flag == nil || v.Flag.Name == "help" {
				return v.Help
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
	return map[string]command{"run": &line.Run, "serve": &line.Serve, "add": &line.Add, "why": &line.Why, "check": &line.Check}[name], 0, nil
}

// envName is the variable that stands for a flag.
func envName(flag string) string {
	return "OPENBOT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// openStore opens the database. Commands that only look do not make a new one:
// a misspelt name would be an empty index.
func openStore(ctx context.Context, file string, create bool, log *slog.Logger) (*sqlite.Store, error) {
	if !create {
		switch info, err := os.Stat(file); {
		case errors.Is(err, os.ErrNotExist):
			return nil, fmt.Errorf("there is no database %s; crawler run and crawler add make one", file)
		case err != nil:
			return nil, fmt.Errorf("open index: %w", err)
		case info.IsDir():
			return nil, fmt.Errorf("%s is a directory; --db wants a file", file)
		}
	}
	return sqlite.Open(ctx, file, &sqlite.Options{Log: log})
}

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

// version is the module's, as built; "dev" outside a release.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	v, _, _ := strings.Cut(strings.TrimPrefix(info.Main.Version, "v"), "-")
	return v
}
