// Command conformance asks the official conformance suite of MCP about the
// publisher and about the client side, and public MCP servers, clients and an
// authorization server in its tests:
//
//	go run ./internal/conformance              all that the suite requires; the totals are the last lines
//	go run ./internal/conformance serve        only serve what the suite is run against
//	go run ./internal/conformance client URL   be the client that the suite runs
//	go run ./internal/conformance node         install the npm packages and say where they are
//
// The server behind it is one of tests: its tools, resources and prompts have
// the names that the suite looks for. All of it goes through the publisher's
// own handler, as any app does. The client is the SDK's over the product's
// network and sign-in.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, flag.Arg(0), os.Stdout, flag.Args()[min(1, flag.NArg()):]...)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, what string, out io.Writer, args ...string) error {
	switch what {
	case "":
		return conform(ctx, out)
	case "serve":
		e, err := published(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, e.url)
		<-ctx.Done()
		return e.close()
	case "client":
		if len(args) != 1 {
			return errors.New("the suite gives a client one address")
		}
		return client(ctx, args[0])
	case "node":
		b, err := install(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(b)
	}
	return fmt.Errorf("no such part: %s", what)
}

// conform runs the suite against the publisher, for both revisions on one URL,
// and against the client, and prints what the suite says of a set that it is
// not content with, then the totals.
func conform(ctx context.Context, out io.Writer) error {
	b, err := install(ctx)
	if err != nil {
		return err
	}
	command, err := clientCommand()
	if err != nil {
		return err
	}
	e, err := published(ctx)
	if err != nil {
		return err
	}
	var totals []string
	var errs []error
	for _, s := range slices.Concat(servers, []set{clients}) {
		target := e.url
		if s.side == "client" {
			target = command
		}
		v, err := b.judge(ctx, s, target)
		if v == nil {
			return errors.Join(err, e.close())
		}
		if err = errors.Join(err, v.check()); err != nil {
			fmt.Fprint(out, v.output)
			errs = append(errs, err)
		}
		totals = append(totals, v.String())
	}
	fmt.Fprintln(out, strings.Join(totals, "\n"))
	return errors.Join(append(errs, e.close())...)
}

// check compares a verdict with what is required of this project.
func (v *verdict) check() error {
	var errs []error
	if len(v.required) != v.scenarios {
		errs = append(errs, fmt.Errorf("the suite requires %d scenarios of a %s of %s, not %d", len(v.required), v.side, v.revision, v.scenarios))
	}
	judged := slices.Concat(v.required, v.also)
	for _, name := range v.missing(judged) {
		line := v.lines[name]
		if line == "" {
			line = name + ": was not run"
		}
		errs = append(errs, fmt.Errorf("%s: %s", v.revision, line))
	}
	if v.side == "client" {
		for _, name := range judged {
			switch text, refuses := v.errors[name], slices.Contains(refused, name); {
			case refuses && text == "":
				errs = append(errs, fmt.Errorf("%s: %s: the client did not refuse", v.revision, name))
			case !refuses && text != "":
				errs = append(errs, fmt.Errorf("%s: %s: the client ended with: %s", v.revision, name, text))
			}
		}
	}
	return errors.Join(errs...)
}
