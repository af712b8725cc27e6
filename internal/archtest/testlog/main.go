// Command testlog prints a log of "go test -json" for people: the lines of each
// package that ran, all output of what failed, each skipped test with its
// reason, and the totals.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: testlog FILE")
		os.Exit(2)
	}
	f, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
	defer func() { _ = f.Close() }()
	if err := report(f, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to close
	}
}

// event is one line of the log.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string
	Output      string
	FailedBuild string
}

// report reads a log and writes what a person wants to see of it.
func report(r io.Reader, w io.Writer) error {
	output := map[string][]string{} // by package and test
	var skipped []string
	passed, failed := 0, 0
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(w, lines.Text()) // what is no event comes from the go command itself
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "output":
			if e.Test == "" && isSummary(e.Output) {
				fmt.Fprint(w, e.Output)
				continue
			}
			output[key] = append(output[key], e.Output)
		case "pass":
			if e.Test != "" {
				passed++
			}
			delete(output, key)
		case "skip":
			if e.Test != "" {
				skipped = append(skipped, fmt.Sprintf("skipped: %s %s: %s", e.Package, e.Test, reason(output[key])))
			}
			delete(output, key)
		case "fail":
			if e.Test != "" {
				failed++
			}
			fmt.Fprint(w, strings.Join(output[key], ""))
			delete(output, key)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	slices.Sort(skipped)
	for _, s := range skipped {
		fmt.Fprintln(w, s)
	}
	_, err := fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", passed, failed, len(skipped))
	return err
}

// isSummary reports whether a line is the go command's about a whole package.
func isSummary(line string) bool {
	for _, start := range []string{"ok  \t", "FAIL\t", "?   \t"} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

// reason is what a skipped test said.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			if _, after, ok := strings.Cut(text, ": "); ok {
				line = after
			}
		}
		said = append(said, line)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}
