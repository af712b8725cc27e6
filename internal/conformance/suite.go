package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// modern is the revision that apps are published for.
const modern = "2026-07-28"

// set is one set of scenarios and what is required of this project in it.
type set struct {
	side     string // "server" or "client": which of the two is judged
	revision string

	// scenarios is how many the suite requires. A suite that requires others is
	// another suite: look at what is new before the number is changed.
	scenarios int

	// also are scenarios that the suite runs without asking for them and that
	// pass: they must not get lost either, but are in no total.
	also []string
}

var (
	servers = []set{
		{"server", modern, 37, []string{"json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"}},
		{"server", "2025-11-25", 30, []string{"json-schema-2020-12", "server-session-lifecycle"}},
	}
	clients = set{"client", modern, 32, []string{"json-schema-2020-12-preservation"}}
)

// refused are the scenarios whose server is not to be trusted, or never content:
// in those the client has to end with an error, and in no other.
var refused = []string{
	"auth/iss-normalized",
	"auth/iss-supported-missing",
	"auth/iss-unexpected",
	"auth/iss-wrong-issuer",
	"auth/metadata-issuer-mismatch",
	"auth/resource-mismatch",
	"auth/scope-retry-limit",
}

// suiteTime is far more than a run takes.
const suiteTime = 5 * time.Minute

// verdict is what the suite says of a server or a client.
type verdict struct {
	set
	required []string          // names of scenarios
	passed   []string          // of those
	all      map[string]bool   // whether a scenario passed, of those that ran
	lines    map[string]string // what the suite printed, by scenario
	output   string            // all of it
	errors   map[string]string // what the client ended with, by scenario
}

// missing are those of the scenarios that did not pass.
func (v *verdict) missing(scenarios []string) []string {
	return slices.DeleteFunc(slices.Clone(scenarios), func(name string) bool { return v.all[name] })
}

func (v *verdict) String() string {
	return fmt.Sprintf("conformance %s %s: %d/%d required scenarios passed", v.side, v.revision, len(v.passed), len(v.required))
}

// suite is the entry of the official suite, among the packages.
func (b *box) suite() string {
	return b.module("@modelcontextprotocol/conformance", "dist/index.js")
}

// judge runs the official suite against a server at an address, or against the
// client that a command runs. The verdict is counted from what the suite prints
// of each scenario, not taken from its exit code alone; the two must agree.
func (b *box) judge(ctx context.Context, s set, target string) (*verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "openbot-conformance")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	list, err := b.command(ctx, dir, b.suite(), "list", "--requirements", s.revision).Output()
	if err != nil {
		return nil, fmt.Errorf("list the scenarios of %s: %w", s.revision, err)
	}
	option := map[string]string{"server": "--url", "client": "--command"}[s.side]
	v := &verdict{set: s, required: scenarios(list, s.side)}
	out, err := b.command(ctx, dir, b.suite(), s.side, option, target, "--requirements", s.revision, "-o", dir).CombinedOutput()
	v.output = string(out)
	failed := err != nil
	if failed && !errors.As(err, new(*exec.ExitError)) {
		return nil, fmt.Errorf("run the suite of %s: %w", s.revision, err)
	}
	v.count(out)
	if s.side == "client" {
		if v.errors, err = complaints(dir); err != nil {
			return nil, err
		}
	}
	if all := len(v.missing(v.required)) == 0; all == failed {
		ended := "success"
		if failed {
			ended = err.Error()
		}
		return v, fmt.Errorf("the suite of %s ends with %s, but %d of %d scenarios passed", s.revision, ended, len(v.passed), len(v.required))
	}
	return v, nil
}

// runName is the directory of a run: the scenario and when it began.
var runName = regexp.MustCompile(`^(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// complaints gives what the client printed as it failed. The suite keeps it in
// a directory for each scenario; its verdict does not ask for it.
func complaints(dir string) (map[string]string, error) {
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		run, name := filepath.Split(path)
		m := runName.FindStringSubmatch(strings.TrimSuffix(filepath.ToSlash(run), "/"))
		if name != "stderr.txt" || m == nil {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, path)) // #nosec G304 -- of the suite
		if len(text) > 0 {
			found[m[1]] = strings.TrimSpace(string(text))
		}
		return err
	})
	return found, err
}

// scenarios reads the names of one side in what the suite lists.
func scenarios(list []byte, side string) []string {
	var names []string
	within := false
	for line := range strings.Lines(string(list)) {
		line = strings.TrimSpace(line)
		name, item := strings.CutPrefix(line, "- ")
		switch {
		case strings.HasPrefix(strings.ToLower(line), side+" scenarios"):
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
	_, summary, _ := bytes.Cut(out, []byte("SUMMARY ==="))
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
