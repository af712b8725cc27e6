package crawl

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

var update = flag.Bool("update", false, "rewrite the want sections of stories")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a crawler with a store of its own on an Internet in memory. It lives
// in a synctest bubble: days pass at once.
type world struct {
	t     *testing.T
	net   *fakenet.Net
	store *sqlite.Store
	c     *Crawler
	start time.Time
	seen  map[string]index.Outcome // newest of each document since the last look

	looked int // requests that a story has listed
	visits int
}

// inWorld runs f in a bubble. change may alter the configuration.
func inWorld(t *testing.T, change func(*Config), f func(t *testing.T, w *world)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "index.db")
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: fakenet.New(), start: time.Now(), seen: make(map[string]index.Outcome)}
		defer w.net.Close()
		var err error
		if w.store, err = sqlite.Open(t.Context(), file, nil); err != nil {
			t.Fatal(err)
		}
		defer w.store.Close()
		cfg := &Config{
			Store: w.store, About: "https://crawler.example.org/about", Contact: "crawler@example.org", Version: "1.2",
			Network: &publicnet.Options{Below: w.net.Below()}, Owner: "w1", Workers: 8, Seed: 1,
			Visited: func(v *index.Visit) {
				w.visits++
				for _, o := range v.Outcomes {
					w.seen[o.URL] = o
				}
			},
		}
		if testing.Verbose() {
			cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		}
		if change != nil {
			change(cfg)
		}
		if w.c, err = New(cfg); err != nil {
			t.Fatal(err)
		}
		f(t, w)
		w.wantRoom()
	})
}

// load sets pages from the text of a story.
func (w *world) load(story string) {
	w.t.Helper()
	w.loadFiles(txtar.Parse([]byte(story)).Files)
}

func (w *world) loadFiles(files []txtar.File) {
	w.t.Helper()
	rest, err := w.net.Load(&txtar.Archive{Files: files})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range rest {
		w.t.Fatalf("section %q is no page and no step", f.Name)
	}
}

func (w *world) add(inputs ...string) {
	w.t.Helper()
	for _, in := range inputs {
		d, err := AddSource(in)
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.store.AddSource(w.t.Context(), time.Now(), d); err != nil {
			w.t.Fatal(err)
		}
	}
}

// until crawls whatever comes due up to a time after the start.
func (w *world) until(after time.Duration) {
	w.t.Helper()
	target := w.start.Add(after)
	for {
		if err := w.c.Settle(w.t.Context(), 10*time.Second); err != nil {
			w.t.Fatal(err)
		}
		due, err := w.store.NextDue(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if due.IsZero() || due.After(target) {
			time.Sleep(time.Until(target))
			return
		}
		time.Sleep(time.Until(due))
	}
}

// settle crawls what is due now.
func (w *world) settle() { w.t.Helper(); w.until(time.Since(w.start) + time.Second) }

func (w *world) entry(card string) *index.Entry {
	w.t.Helper()
	e, err := w.store.ByCard(w.t.Context(), card)
	if errors.Is(err, index.ErrNotFound) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) doc(url string) *index.Doc {
	w.t.Helper()
	d, err := w.store.Doc(w.t.Context(), url)
	if err != nil {
		w.t.Fatalf("%s: %v", url, err)
	}
	return d
}

// stands gives "state reason" of an entry; "-" without one.
func (w *world) stands(card string) string {
	e := w.entry(card)
	if e == nil {
		return "-"
	}
	return strings.TrimSpace(string(e.State) + " " + string(e.Reason))
}

func (w *world) wantState(card, want string) {
	w.t.Helper()
	if got := w.stands(card); got != want {
		o, _ := w.store.Outcomes(w.t.Context(), card, 1)
		w.t.Fatalf("after %s: %s is %q, want %q; last outcome: %+v", time.Since(w.start), card, got, want, o)
	}
}

// requests counts those whose URL begins with prefix.
func (w *world) requests(prefix string) []fakenet.Request {
	var out []fakenet.Request
	for _, r := range w.net.Requests() {
		if strings.HasPrefix(r.URL, prefix) {
			out = append(out, r)
		}
	}
	return out
}

// report lists what happened since the last report, a line a document: URL,
// outcome, and the entry's state and reason.
func (w *world) report() string {
	var b strings.Builder
	for _, url := range slices.Sorted(func(yield func(string) bool) {
		for u := range w.seen {
			if !yield(u) {
				return
			}
		}
	}) {
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%s %s %s", url, w.seen[url].Code, strings.Trim(w.stands(url), "-"))))
	}
	clear(w.seen)
	return b.String()
}

// TestStories plays each file of testdata: a small Internet, steps, and what
// must come out. To report a crawl bug, copy a file, change the pages, run with
// -update and read the difference. Besides pages a story has the sections
//
//	-- add --        addresses, as a person gives them
//	-- at 26h --     crawl until so long after the start; the pages before it count
//	-- want --       URL outcome [state [reason]], for all documents visited since the last want
//	-- requests --   the requests since the last look, as "METHOD URL"
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { play(t, file) })
	}
}

func play(t *testing.T, file string) {
	story, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := false
	inWorld(t, nil, func(t *testing.T, w *world) {
		var pages []txtar.File
		flush := func() { w.loadFiles(pages); pages = nil }
		for i := range story.Files {
			f := &story.Files[i]
			verb, arg, _ := strings.Cut(f.Name, " ")
			switch verb {
			case "add":
				flush()
				for line := range lines(string(f.Data)) {
					w.add(line)
				}
				w.settle()
			case "at":
				flush()
				d, err := time.ParseDuration(arg)
				if err != nil {
					t.Fatalf("section %q: %v", f.Name, err)
				}
				w.until(d)
			case "want", "requests":
				got := ""
				if verb == "want" {
					got = w.report()
				} else {
					all := w.net.Requests()
					for _, r := range all[w.looked:] {
						got += r.String() + "\n"
					}
					w.looked = len(all)
				}
				if diff := cmp.Diff(string(f.Data), got); diff != "" {
					if !*update {
						t.Errorf("section %d, %q, after %s (-want +got):\n%s", i+1, f.Name, time.Since(w.start), diff)
						continue
					}
					f.Data, changed = []byte(got), true
				}
			default:
				pages = append(pages, *f)
			}
		}
	})
	if changed {
		if err := os.WriteFile(file, txtar.Format(story), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func lines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
			if line := strings.TrimSpace(s.Text()); line != "" && !yield(line) {
				return
			}
		}
	}
}
