package fakenet_test

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const story = `
-- GET https://apps.example.com/.well-known/ai-catalog.json --
200
ETag: "1"
Last-Modified: Tue, 01 Jul 2025 00:00:00 GMT
X-Robots-Tag: none
Link: </a>; rel=x
Link: </b>; rel=y

{"specVersion": "1.0", "entries": []}
-- GET https://apps.example.com/card --
{"$schema": "x"}
-- GET https://apps.example.com/card --
503
Retry-After: 60
Content-Type:

later
-- GET https://apps.example.com/card --
404
-- GET https://apps.example.com/page --
<!doctype html>
-- GET https://apps.example.com/list --
[]
-- GET https://apps.example.com/any --
{}
-- GET https://apps.example.com/text --
200

Name: value
-- GET https://apps.example.com/robots.txt --
User-agent: *
Disallow: /private

User-agent: OpenBot
-- GET https://robots.example.com/robots.txt --
503
Retry-After: 5
-- GET https://www.example.com:8443/ --
301 https://apps.example.com/page?x
-- POST https://apps.example.com/form --
posted
-- GET https://late.example.com/ --
200
wait 3s

late
-- DNS late.example.com --
nxdomain
-- DNS late.example.com --
8.8.8.8 2a00::1
-- want --
left for the test
`

func load(t *testing.T, story string) (*fakenet.Net, *http.Client) {
	t.Helper()
	n := fakenet.New()
	rest, err := n.Load(txtar.Parse([]byte(story)))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range rest {
		if file.Name != "want" {
			t.Errorf("section %q was left", file.Name)
		}
	}
	network, err := publicnet.New(&publicnet.Options{UserAgent: "Test/1", Ports: []int{8443}, Below: n.Below()})
	if err != nil {
		t.Fatal(err)
	}
	return n, network.Client()
}

type answer struct {
	Status int
	Type   string
	Body   string
}

func ask(t *testing.T, c *http.Client, method, url string, header ...string) (answer, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return answer{}, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(body)}, resp.Header
}

func TestStory(t *testing.T) {
	// Not in a bubble: the same works in real time.
	n, c := load(t, story)
	defer n.Close()
	defer c.CloseIdleConnections()
	for _, tt := range []struct {
		method, url string
		want        answer
	}{
		{"GET", "https://apps.example.com/.well-known/ai-catalog.json", answer{200, "application/ai-catalog+json", "{\"specVersion\": \"1.0\", \"entries\": []}\n"}},
		{"HEAD", "https://apps.example.com/.well-known/ai-catalog.json", answer{200, "application/ai-catalog+json", ""}},
		{"GET", "https://apps.example.com/card", answer{200, "application/mcp-server-card+json", "{\"$schema\": \"x\"}\n"}},
		{"GET", "https://apps.example.com/card", answer{503, "", "later\n"}},
		{"GET", "https://apps.example.com/card", answer{404, "", ""}},
		{"GET", "https://apps.example.com/card", answer{404, "", ""}},
		{"GET", "https://apps.example.com/page", answer{200, "text/html; charset=utf-8", "<!doctype html>\n"}},
		{"GET", "https://apps.example.com/list", answer{200, "application/json", "[]\n"}},
		{"GET", "https://apps.example.com/any", answer{200, "application/json", "{}\n"}},
		{"GET", "https://apps.example.com/text", answer{200, "text/plain; charset=utf-8", "Name: value\n"}},
		{"GET", "https://apps.example.com/robots.txt", answer{200, "text/plain; charset=utf-8", "User-agent: *\nDisallow: /private\n\nUser-agent: OpenBot\n"}},
		{"GET", "https://robots.example.com/robots.txt", answer{503, "", ""}},
		{"GET", "https://late.example.com:8443/robots.txt", answer{}},
		{"POST", "https://apps.example.com/form", answer{200, "text/plain; charset=utf-8", "posted\n"}},
		{"GET", "https://apps.example.com/form", answer{404, "text/plain; charset=utf-8", "404 page not found\n"}},
		{"GET", "https://www.example.com/robots.txt", answer{404, "text/plain; charset=utf-8", "404 page not found\n"}},
	} {
		if tt.want.Status == 0 {
			if _, err := c.Get(tt.url); !errors.Is(err, publicnet.ErrDNS) {
				t.Errorf("%s: %v", tt.url, err)
			}
			continue
		}
		got, _ := ask(t, c, tt.method, tt.url)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.method, tt.url, diff)
		}
	}
	if got, _ := ask(t, c, "GET", "https://www.example.com:8443/"); got.Status != 404 {
		t.Errorf("redirect to a path without section: %+v", got)
	}
	got := n.Requests()
	last := got[len(got)-1]
	if last.String() != "GET https://apps.example.com/page?x" || last.Addr != n.Host("apps.example.com") || last.Header.Get("User-Agent") != "Test/1" {
		t.Errorf("last request %+v", last)
	}

	n.Reset()
	if len(n.Requests()) != 0 || len(n.Lookups()) != 0 || len(n.Dials()) != 0 {
		t.Error("Reset left records")
	}
	if got, _ := ask(t, c, "GET", "https://apps.example.com/card"); got.Status != 200 {
		t.Errorf("after Reset the first answer is %+v", got)
	}
}

func TestConditional(t *testing.T) {
	n, c := load(t, story)
	defer n.Close()
	defer c.CloseIdleConnections()
	const url = "https://apps.example.com/.well-known/ai-catalog.json"
	for _, tt := range []struct {
		name, value string
		want        int
	}{
		{"If-None-Match", `"1"`, 304},
		{"If-None-Match", `W/"1"`, 304},
		{"If-None-Match", `"0", "1"`, 304},
		{"If-None-Match", `*`, 304},
		{"If-None-Match", `"2"`, 200},
		{"If-Modified-Since", "Tue, 01 Jul 2025 00:00:00 GMT", 304},
		{"If-Modified-Since", "Tue, 01 Jul 2025 00:00:01 GMT", 200},
	} {
		got, header := ask(t, c, "GET", url, tt.name, tt.value)
		if got.Status != tt.want || header.Get("X-Robots-Tag") != "none" || len(header.Values("Link")) != 2 {
			t.Errorf("%s: %s: %+v %v", tt.name, tt.value, got, header)
		}
	}
	if got, _ := ask(t, c, "GET", "https://apps.example.com/any", "If-None-Match", `"1"`); got.Status != 200 {
		t.Errorf("no tag, and %+v", got)
	}
}

func TestInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c := load(t, story)
		defer n.Close()
		defer c.CloseIdleConnections()
		if _, err := c.Get("https://late.example.com/"); !errors.Is(err, publicnet.ErrDNS) {
			t.Errorf("nxdomain: %v", err)
		}
		begin := time.Now()
		if got, _ := ask(t, c, "GET", "https://late.example.com/"); got.Body != "late\n" || time.Since(begin) != 3*time.Second {
			t.Errorf("%+v after %s", got, time.Since(begin))
		}
		if got := n.Dials(); len(got) != 1 || got[0] != netip.MustParseAddrPort("8.8.8.8:443") {
			t.Errorf("dials %v", got)
		}
		if got := n.Requests()[0].Time; !got.Equal(begin) {
			t.Errorf("request at %s, want %s", got, begin)
		}
	})
}

func TestHandle(t *testing.T) {
	n, c := load(t, "")
	defer n.Close()
	defer c.CloseIdleConnections()
	n.Handle("Apps.example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write([]byte(r.Method + " " + r.RequestURI + " " + string(body)))
	}))
	n.Set("https://apps.example.com/own", fakenet.Answer{Body: "own"})
	n.SetMethod("PUT", "https://apps.example.com/own", fakenet.Answer{Status: 204})
	if got, _ := ask(t, c, "GET", "https://apps.example.com/a%2fb?c"); got.Body != "GET /a%2fb?c " {
		t.Errorf("%+v", got)
	}
	if got, _ := ask(t, c, "GET", "https://apps.example.com/own"); got.Body != "own" {
		t.Errorf("%+v", got)
	}
	if got, _ := ask(t, c, "PUT", "https://apps.example.com/own"); got.Status != 204 {
		t.Errorf("%+v", got)
	}
	resp, err := c.Post("https://apps.example.com/", "text/plain", strings.NewReader(strings.Repeat("x", 300_000)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); len(body) != len("POST / ")+300_000 {
		t.Errorf("%d octets", len(body))
	}
}

func TestCloseEndsWhatHangs(t *testing.T) {
	n, c := load(t, `
-- GET https://apps.example.com/ --
timeout
-- CONNECT silent.example.com --
timeout
-- DNS dns.example.com --
timeout
`)
	defer c.CloseIdleConnections()
	done := make(chan error)
	for _, host := range []string{"apps", "silent", "dns"} {
		go func() {
			_, err := c.Get("https://" + host + ".example.com/")
			done <- err
		}()
	}
	for len(n.Requests()) == 0 || len(n.Dials()) < 2 || len(n.Lookups()) < 3 {
		time.Sleep(time.Millisecond)
	}
	n.Close()
	n.Close()
	for range 3 {
		if err := <-done; err == nil || errors.Is(err, publicnet.ErrTimeout) {
			t.Errorf("after Close: %v", err)
		}
	}
	if _, err := c.Get("https://apps.example.com/"); !errors.Is(err, publicnet.ErrConnect) {
		t.Errorf("closed Net: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, story := range []string{
		"-- GET http://apps.example.com/ --\n",
		"-- GET nonsense --\n",
		"-- DNS a.example.com --\nwords here\n",
		"-- TLS a.example.com --\nold\n",
		"-- CONNECT a.example.com --\nmaybe\n",
		"-- GET https://a.example.com/ --\n200\nwait long\n",
		"-- GET https://a.example.com/ --\n200\nreset now\n",
		"-- GET https://a.example.com/ --\n200\nthis is a body\n",
	} {
		if _, err := fakenet.New().Load(txtar.Parse([]byte(story))); err == nil {
			t.Errorf("%q was accepted", story)
		}
	}
}

func TestManyHosts(t *testing.T) {
	n := fakenet.New()
	seen := make(map[netip.Addr]bool)
	for i := range 70_000 {
		a := n.Host(strings.Repeat("a", i%50) + "." + string(rune('a'+i%26)) + time.Duration(i).String())
		if seen[a] || !publicnet.IsPublic(a) {
			t.Fatalf("host %d: %s", i, a)
		}
		seen[a] = true
	}
}

func BenchmarkVisit(b *testing.B) {
	n := fakenet.New()
	defer n.Close()
	n.Set("https://apps.example.com/", fakenet.Answer{Body: "ok"})
	network, err := publicnet.New(&publicnet.Options{UserAgent: "Test/1", Below: n.Below()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c := network.Client()
		resp, err := c.Get("https://apps.example.com/")
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		c.CloseIdleConnections()
	}
}
