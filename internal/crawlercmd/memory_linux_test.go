package crawlercmd_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/crawl"
)

const wellKnown = "/.well-known/ai-catalog.json"

// greed is what 256 sites answer alike: the worst of one kind.
type greed struct {
	name   string
	target string // path whose answers all come at once
	seed   string // after the host: what is asked for first
	pages  map[string]func(host string) []byte
	header http.Header
	slow   bool // the answers of target stop in the middle
}

func fixed(text string) func(string) []byte {
	b := []byte(text)
	return func(string) []byte { return b }
}

// fill repeats parts until they are nearly 1 MiB.
func fill(begin string, part func(i int) string, end string) []byte {
	var b bytes.Buffer
	b.WriteString(begin)
	for i := 0; ; i++ {
		p := part(i)
		if b.Len()+len(p)+len(end) > 1<<20 {
			break
		}
		b.WriteString(p)
	}
	b.WriteString(end)
	return b.Bytes()
}

func greeds() []greed {
	type pages = map[string]func(string) []byte
	const card = `{"identifier": "urn:air:example.com:mcp:app", "type": "application/mcp-server-card+json", "url": "/card"}`
	const open = `{"specVersion": "1.0", "entries": [` + card
	one := fixed(open + `]}`)
	numbers := string(fill(open+`], "x": [1`, func(int) string { return ",1" }, "]}"))
	leads := string(fill(open, func(i int) string {
		return fmt.Sprintf(`,{"identifier":"a","type":"application/mcp-server-card+json","url":"https://x.example.org/%d"}`, i)
	}, `]}`))
	relative := string(fill(open, func(i int) string {
		return fmt.Sprintf(`,{"identifier":"a","type":"application/mcp-server-card+json","url":"?%d"}`, i)
	}, `]}`))
	rules := string(fill("User-agent: *\n", func(i int) string { return fmt.Sprintf("allow:/%x\n", i) }, ""))
	links := string(fill("<!doctype html><head>", func(i int) string { return fmt.Sprintf("<link rel=ai-catalog href=?%d>", i) }, ""))
	var zip bytes.Buffer
	z := gzip.NewWriter(&zip)
	_, _ = z.Write([]byte(numbers))
	_ = z.Close()
	long := "/" + strings.Repeat("a", 7000) + "/c"
	large := func(host string) []byte {
		c := loopbackCard("com.example/"+host, 10)
		return fill(string(c[:len(c)-1])+`, "more": [1`, func(int) string { return ",1" }, "]}")
	}
	many := pages{"": func(string) []byte { return loopbackCard("com.example/many", 30<<10) }}
	var cards []string
	for i := range 48 {
		cards = append(cards, fmt.Sprintf(`{"identifier": "a%d", "type": "application/mcp-server-card+json", "url": "/card%d"}`, i, i))
	}
	many[wellKnown] = fixed(`{"specVersion": "1.0", "entries": [` + strings.Join(cards, ",") + `]}`)
	return []greed{
		{name: "catalog of numbers", target: wellKnown, pages: pages{wellKnown: fixed(numbers)}},
		{name: "catalog of leads", target: wellKnown, pages: pages{wellKnown: fixed(leads)}},
		{name: "catalog of relative leads at a long address", target: long, seed: long, pages: pages{long: fixed(relative)}},
		{name: "gzip", target: wellKnown, pages: pages{wellKnown: fixed(zip.String())}, header: http.Header{"Content-Encoding": {"gzip"}}},
		{name: "rules", target: "/robots.txt", pages: pages{"/robots.txt": fixed(rules), wellKnown: one}},
		{name: "page of links", target: long, seed: long, pages: pages{long: fixed(links)}, header: http.Header{"Content-Type": {"text/html"}}},
		// Not listed, or the search index would hold them.
		{name: "large cards", target: "/card", seed: "/card", pages: pages{wellKnown: fixed(`{"specVersion": "1.0", "entries": []}`), "/card": large}},
		{name: "many cards", target: "/card0", pages: many},
		{name: "slow", target: wellKnown, pages: pages{wellKnown: fixed(numbers)}, slow: true},
	}
}

// serve gives a handler for one host. The answers of the target wait for each
// other, so that they all come at once.
func (g *greed) serve(host string, gate *gate) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page := g.pages[r.URL.Path]
		if page == nil {
			page = g.pages[""]
		}
		if page == nil || r.URL.Path == "/robots.txt" && g.pages[r.URL.Path] == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		body := page(host)
		if r.URL.Path != g.target {
			_, _ = w.Write(body)
			return
		}
		for k, v := range g.header {
			w.Header()[k] = v
		}
		gate.pass(host)
		if g.slow {
			_, _ = w.Write(body[:len(body)/2])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = w.Write(body)
		gate.answered(host)
	}
}

// gate opens when as many hosts as there are have come.
type gate struct {
	mu       sync.Mutex
	hosts    int
	came     map[string]bool
	done     map[string]bool
	open     chan struct{}
	finished chan struct{}
}

func newGate(hosts int) *gate {
	return &gate{hosts: hosts, came: make(map[string]bool), done: make(map[string]bool), open: make(chan struct{}), finished: make(chan struct{})}
}

func (g *gate) pass(host string) {
	g.mu.Lock()
	if !g.came[host] {
		if g.came[host] = true; len(g.came) == g.hosts {
			close(g.open)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-time.After(5 * time.Second):
	}
}

func (g *gate) answered(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.done[host] {
		if g.done[host] = true; len(g.done) == g.hosts {
			close(g.finished)
		}
	}
}

// T3: 256 sites at once that all answer with the worst document of a kind. The
// peak is that of the whole command, as the operating system counts it: index,
// API and metrics included.
func TestRule_CrawlerT3_AlikeAndWorst(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector multiplies memory: scripts/test runs this test once more, without it")
	}
	const sites, most = crawl.DefaultWorkers, 150 << 20
	for _, g := range greeds() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			l := newLoopback(t)
			gate := newGate(sites)
			var seeds strings.Builder
			for i := range sites {
				host := fmt.Sprintf("s%04d.example.com", i)
				l.handlers[host] = g.serve(host, gate)
				if g.seed == "" {
					fmt.Fprintln(&seeds, host)
				} else {
					fmt.Fprintln(&seeds, "https://"+host+g.seed)
				}
			}
			p := l.run(t, nil, filepath.Join(t.TempDir(), "index.db"), "--seeds", l.write(t, "seeds", []byte(seeds.String())))
			began, limit := time.Now(), time.Minute
			if g.slow {
				limit = 15 * time.Second // none of them ends
			}
			select {
			case <-gate.finished:
			case <-p.done:
				t.Fatalf("it ended:\n%s", p.log)
			case <-time.After(limit):
			}
			took := time.Since(began)
			time.Sleep(3 * time.Second) // for what comes of the last ones
			rss := peakResident(t, p.Process.Pid)
			p.stop(t)
			gate.mu.Lock()
			came, done := len(gate.came), len(gate.done)
			gate.mu.Unlock()
			t.Logf("%d MiB resident at most; %d of %d answers taken in %s", rss>>20, done, came, took.Round(time.Millisecond))
			if came != sites || done != sites && !g.slow {
				t.Errorf("%d sites were asked, %d answers were taken, of %d", came, done, sites)
			}
			if rss > most {
				t.Errorf("%d MiB were resident, at most %d are allowed", rss>>20, most>>20)
			}
		})
	}
}

func peakResident(t *testing.T, pid int) (octets int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	if _, err := fmt.Sscan(string(rest), &octets); err != nil {
		t.Fatal(err)
	}
	return octets << 10
}
