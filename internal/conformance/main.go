// Command conformance asks the official conformance suite of MCP about the
// publisher, and public MCP servers and clients in its tests:
//
//	go run ./internal/conformance         both revisions on one URL; the totals are the last lines
//	go run ./internal/conformance serve   only serve what the suite is run against
//	go run ./internal/conformance node    install the npm packages and say where they are
//
// The server behind it is one of tests: its tools, resources and prompts have
// the names that the suite looks for. All of it goes through the publisher's
// own handler, as any app does.
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
	err := run(ctx, flag.Arg(0), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, what string, out io.Writer) error {
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
	case "node":
		b, err := install(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(b)
	}
	return fmt.Errorf("no such part: %s", what)
}

// conform runs the suite for both revisions on one URL and prints what the
// suite says of a revision that it is not content with, then the totals.
func conform(ctx context.Context, out io.Writer) error {
	b, err := install(ctx)
	if err != nil {
		return err
	}
	e, err := published(ctx)
	if err != nil {
		return err
	}
	var totals []string
	var errs []error
	for _, r := range required {
		v, err := b.judge(ctx, e.url, r.revision)
		if v == nil {
			return errors.Join(err, e.close())
		}
		if err = errors.Join(err, check(v, r.scenarios, r.also)); err != nil {
			fmt.Fprint(out, v.output)
			errs = append(errs, err)
		}
		totals = append(totals, v.String())
	}
	fmt.Fprintln(out, strings.Join(totals, "\n"))
	return errors.Join(append(errs, e.close())...)
}

// check compares a verdict with what is required of this project.
func check(v *verdict, scenarios int, also []string) error {
	var errs []error
	if len(v.required) != scenarios {
		errs = append(errs, fmt.Errorf("the suite requires %d scenarios of %s, not %d", len(v.required), v.revision, scenarios))
	}
	for _, name := range v.missing(slices.Concat(v.required, also)) {
		line := v.lines[name]
		if line == "" {
			line = name + ": was not run"
		}
		errs = append(errs, fmt.Errorf("%s: %s", v.revision, line))
	}
	return errors.Join(errs...)
}
