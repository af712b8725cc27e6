package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/publicnet"
)

// The demo's own assertions hold, from publishing to the search page.
func TestDemoChecks(t *testing.T) {
	var out lockedBuffer
	if err := run(t.Context(), true, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if strings.Count(out.String(), "\nok ") < 8 {
		t.Errorf("not all checks ran:\n%s", out.String())
	}
}

// The demo without -check prints what to look at and stops cleanly.
func TestDemoStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out lockedBuffer
	done := make(chan error, 1)
	go func() { done <- run(ctx, false, &out) }()
	waitFor(t, &out, done, "Press Ctrl-C to stop.")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "curl -sSw"); n != 5 {
		t.Errorf("%d curl lines, want 5:\n%s", n, out.String())
	}
}

func waitFor(t *testing.T, out *lockedBuffer, done <-chan error, text string) {
	t.Helper()
	for deadline := time.Now().Add(indexTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-done:
			t.Fatalf("the demo ended: %v\n%s", err, out.String())
		default:
		}
		if strings.Contains(out.String(), text) {
			return
		}
	}
	t.Fatalf("no %q within %v:\n%s", text, indexTimeout, out.String())
}

// An app is published, found by its domain, and called, and nothing that keeps
// a list of apps runs anywhere.
func TestRule_OB115_NoRegistryNeeded(t *testing.T) {
	d := &demo{dir: t.TempDir(), out: &lockedBuffer{}}
	if err := d.publish(); err != nil {
		t.Fatal(err)
	}
	defer d.close()
	n, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: d.net.below()})
	if err != nil {
		t.Fatal(err)
	}
	client := n.Client()
	defer client.CloseIdleConnections()
	resolver, err := discovery.NewResolver(&discovery.Options{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	result, err := resolver.Resolve(t.Context(), "apps.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if result.Shape != discovery.Single || result.Candidates[0].Endpoint.URL != "https://apps.example.com/mcp/calendar" {
		t.Fatalf("found %+v", result)
	}
	if err := d.checkCall(t.Context(), client); err != nil {
		t.Error(err)
	}
}

// In a real browser the search page finds an app, and the app's page shows
// itself, both without a script and without a complaint of the browser.
func TestPagesInBrowser(t *testing.T) {
	browser := browserPath(t)
	d := &demo{dir: t.TempDir(), out: &lockedBuffer{}}
	if err := d.publish(); err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.startCrawler(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer d.stopCrawler()
	if err := d.waitUntilIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}

	key := sha256.Sum256(d.net.authority.RawSubjectPublicKeyInfo)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser),
		chromedp.Flag("host-resolver-rules", "MAP apps.example.com "+d.listener("apps.example.com")),
		chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])),
		chromedp.Flag("disable-quic", true),
		chromedp.UserDataDir(t.TempDir()),
	)
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // Chromium's sandbox does not work for root
	}
	alloc, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	defer cancel()
	ctx, cancel := chromedp.NewContext(alloc)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 90*time.Second)
	defer cancel()

	var complaints lockedBuffer
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(e any) {
		switch e := e.(type) {
		case *log.EventEntryAdded:
			if !strings.Contains(e.Entry.URL, "favicon") {
				_, _ = complaints.Write([]byte(e.Entry.Text + " " + e.Entry.URL + "\n"))
			}
		case *runtime.EventExceptionThrown:
			_, _ = complaints.Write([]byte(e.ExceptionDetails.Text + "\n"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := chromedp.Do(ctx,
		chromedp.Navigate(d.index+"/"),
		chromedp.SendKeys(chromedp.CSS(`input[name="q"]`), "纪要\r"),
		chromedp.WaitVisible(`//*[contains(text(), "团队笔记助手")]`),
	); err != nil {
		t.Fatal(err)
	}
	results := read(ctx, t, chromedp.Text(chromedp.CSS("main")))
	scripts := read(ctx, t, chromedp.Evaluate[int](`document.scripts.length`))
	if err := chromedp.Do(ctx, chromedp.Navigate("https://apps.example.com/apps/calendar")); err != nil {
		t.Fatal(err)
	}
	title := read(ctx, t, chromedp.Title())
	link := read(ctx, t, chromedp.Evaluate[string](`document.querySelector("link[rel=ai-catalog]").href`))
	lang := read(ctx, t, chromedp.Evaluate[string](`document.documentElement.lang`))

	if !strings.Contains(results, "notes.example.com") {
		t.Errorf("the result does not show its origin:\n%s", results)
	}
	if strings.Contains(results, "Example Calendar") {
		t.Errorf("the calendar is no answer to 纪要:\n%s", results)
	}
	if scripts != 0 {
		t.Errorf("the search page has %d scripts", scripts)
	}
	if !strings.Contains(title, "Example Calendar") || link != "https://apps.example.com/apps/calendar/catalog.json" || lang != "en" {
		t.Errorf("app page: title %q, catalog link %q, language %q", title, link, lang)
	}
	if said := complaints.String(); said != "" {
		t.Errorf("the browser complained:\n%s", said)
	}
}

// read gives what an action reads from the page.
func read[T any](ctx context.Context, t *testing.T, a chromedp.Action[T]) T {
	t.Helper()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// browserPath is a Chromium of this machine. Without one the test is skipped;
// in continuous integration that is a failure.
func browserPath(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const how = "no Chromium on this machine; apt-get install chromium brings one"
	if os.Getenv("CI") == "true" {
		t.Fatal(how)
	}
	t.Skip(how)
	return ""
}
