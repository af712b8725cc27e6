package crawlercmd_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/tools/txtar"

	"github.com/openbot-build/openbot-go/internal/crawlercmd"
	"github.com/openbot-build/openbot-go/internal/fakenet"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"crawler": crawler, "loopback-crawler": loopbackCrawler})
}

// crawler is the command on an Internet in memory: the story in the file that
// TEST_NET names.
func crawler() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	internet := fakenet.New()
	if file := os.Getenv("TEST_NET"); file != "" {
		story, err := txtar.ParseFile(file)
		if err == nil {
			_, err = internet.Load(story)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
	}
	os.Exit(crawlercmd.Run(ctx, os.Args[1:], &crawlercmd.Env{
		Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Below: internet.Below(),
	}))
}

// The command as a person and a script meet it. Besides the usual commands a
// script has
//
//	eventually PATTERN crawler ARG...   until standard output matches
//	get URL PATTERN                     until the answer's status and body match
//	status CODE crawler ARG...           runs it and compares the exit status
//	sections FILE                       writes FILE from FILE.in, where "== NAME ==" stands for "-- NAME --"
//
//	taken                               listens at an address of its own and puts it into TAKEN
//
// and LISTEN and METRICS are addresses that are free; ANYWHERE is LISTEN on all
// interfaces.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"LISTEN", "METRICS"} {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return err
				}
				env.Setenv(name, l.Addr().String())
				if _, port, err := net.SplitHostPort(l.Addr().String()); err == nil && name == "LISTEN" {
					env.Setenv("ANYWHERE", "0.0.0.0:"+port)
				}
				if err := l.Close(); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"eventually": eventually,
			"get":        get,
			"sections":   sections,
			"status":     status,
			"taken":      taken,
		},
	})
}

const patience = 30 * time.Second

func eventually(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		_ = ts.Exec(args[1], args[2:]...) // why ends with 1 while the answer is no
		out := ts.ReadFile("stdout")
		if pattern.MatchString(out) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no match for %s in:\n%s%s", pattern, out, ts.ReadFile("stderr"))
		}
	}
}

func status(ts *testscript.TestScript, _ bool, args []string) {
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s:\n%s", got, args[0], ts.ReadFile("stderr"))
	}
	if strings.Count(ts.ReadFile("stderr"), "\n") != 1 {
		ts.Fatalf("more or less than one line:\n%s", ts.ReadFile("stderr"))
	}
}

func get(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?ms)" + args[1])
	got := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get(args[0])
		if err != nil {
			got = err.Error()
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got = fmt.Sprintf("%d %s", resp.StatusCode, body); err == nil && pattern.MatchString(got) {
			return
		}
	}
	ts.Fatalf("GET %s: no match for %s in:\n%s", args[0], pattern, got)
}

func taken(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("TAKEN", l.Addr().String())
}

var section = regexp.MustCompile(`(?m)^== (.*) ==$`)

func sections(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0] + ".in")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(section.ReplaceAllString(text, "-- $1 --")), 0o600))
}
