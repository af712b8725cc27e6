package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// required is how many server scenarios the official suite requires of each
// revision. A suite that requires others is another suite: look at what is new
// before the number is changed.
//
// also are scenarios that the suite runs without asking for them and that this
// server passes: they must not get lost either, but are in no total.
var required = []struct {
	revision  string
	scenarios int
	also      []string
}{
	{"2026-07-28", 37, []string{"json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"}},
	{"2025-11-25", 30, []string{"json-schema-2020-12", "server-session-lifecycle"}},
}

// suiteTime is far more than a run takes.
const suiteTime = 5 * time.Minute

// verdict is what the suite says of a server.
type verdict struct {
	revision string
	required []string          // names of scenarios
	passed   []string          // of those
	all      map[string]bool   // whether a scenario passed, of those that ran
	lines    map[string]string // what the suite printed, by scenario
	output   string            // all of it
}

// missing are those of the scenarios that did not pass.
func (v *verdict) missing(scenarios []string) []string {
	return slices.DeleteFunc(slices.Clone(scenarios), func(name string) bool { return v.all[name] })
}

func (v *verdict) String() string {
	return fmt.Sprintf("conformance %s: %d/%d required scenarios passed", v.revision, len(v.passed), len(v.required))
}

// suite is the entry of the official suite, among the packages.
func (b *box) suite() string {
	return b.module("@modelcontextprotocol/conformance", "dist/index.js")
}

// judge runs the official suite of a revision against a server. The verdict is
// counted from what the suite prints of each scenario, not taken from its exit
// code alone; the two must agree.
func (b *box) judge(ctx context.Context, url, revision string) (*verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "openbot-conformance")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	list, err := b.command(ctx, dir, b.suite(), "list", "--requirements", revision).Output()
	if err != nil {
		return nil, fmt.Errorf("list the scenarios of %s: %w", revision, err)
	}
	v := &verdict{revision: revision, required: serverScenarios(list)}
	out, err := b.command(ctx, dir, b.suite(), "server", "--url", url, "--requirements", revision, "-o", dir).CombinedOutput()
	v.output = string(out)
	failed := err != nil
	if failed && !errors.As(err, new(*exec.ExitError)) {
		return nil, fmt.Errorf("run the suite of %s: %w", revision, err)
	}
	v.count(out)
	if all := len(v.missing(v.required)) == 0; all == failed {
		ended := "success"
		if failed {
			ended = err.Error()
		}
		return v, fmt.Errorf("the suite of %s ends with %s, but %d of %d scenarios passed", revision, ended, len(v.passed), len(v.required))
	}
	return v, nil
}

// serverScenarios reads the names below "Server scenarios" in what the suite
// lists.
func serverScenarios(list []byte) []string {
	var names []string
	within := false
	for line := range strings.Lines(string(list)) {
		line = strings.TrimSpace(line)
		name, item := strings.CutPrefix(line, "- ")
		switch {
		case strings.HasPrefix(line, "Server scenarios"):
			within = true
		case within && item:
			names = append(names, name)
		case within && line == "":
			return names
		}
	}
	return names
}

// summaryLine is one scenario in the suite's summary.
var summaryLine = regexp.MustCompile(`^([✓✗]) ([A-Za-z0-9/_.-]+): (\d+) passed, (\d+) failed`)

// count reads the summary. A scenario passed if it is marked so, has at least
// one check that passed, and none that failed.
func (v *verdict) count(out []byte) {
	v.lines, v.all, v.passed = map[string]string{}, map[string]bool{}, nil
	_, summary, _ := bytes.Cut(out, []byte("=== SUMMARY ==="))
	for lines := bufio.NewScanner(bytes.NewReader(summary)); lines.Scan(); {
		if m := summaryLine.FindStringSubmatch(lines.Text()); m != nil {
			v.lines[m[2]] = lines.Text()
			v.all[m[2]] = m[1] == "✓" && m[3] != "0" && m[4] == "0"
		}
	}
	for _, name := range v.required {
		if v.all[name] {
			v.passed = append(v.passed, name)
		}
	}
}
