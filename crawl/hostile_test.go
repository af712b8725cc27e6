package crawl

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/publicnet"
)

// attack answers one request as badly as it can. The connection is its own; it
// is closed when attack returns.
type attack struct {
	name string
	// answer writes raw octets. Errors of the connection end it.
	answer func(c *enemy)
	mild   mild
}

// mild says as what an attack does no harm.
type mild int

const (
	asRobots  mild = 1 << iota // it holds no rules that bind us, as far as it is read (R4), or counts as none
	asCatalog                  // it can be used, but names none of the site's own apps
)

// enemy is the connection of an attack.
type enemy struct {
	net.Conn
	err error
}

func (e *enemy) say(format string, args ...any) { e.bytes(fmt.Appendf(nil, format, args...)) }

func (e *enemy) bytes(b []byte) {
	if e.err == nil {
		_, e.err = e.Write(b)
	}
}

// forever repeats until the other side is gone.
func (e *enemy) forever(b []byte) {
	for e.err == nil {
		e.bytes(b)
	}
}

// slowly sends an octet a second.
func (e *enemy) slowly(text string) {
	for i := 0; ; i = (i + 1) % len(text) {
		if e.bytes([]byte{text[i]}); e.err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// hold says nothing until the other side is gone.
func (e *enemy) hold() { _, _ = io.Copy(io.Discard, e.Conn) }

const okHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

// body sends a whole answer. It does not copy the body, which would count as
// the crawler's memory.
func (e *enemy) body(header string, body []byte) {
	e.say("%s%sContent-Length: %d\r\n\r\n", okHead, header, len(body))
	e.bytes(body)
}

// attacks are the worst answers that we know, of the kinds that the vectors of
// responses name and some more.
func attacks() []attack {
	zeros := gzipped(bytes.NewReader(make([]byte, 100<<20)))
	good := gzipped(strings.NewReader(catalogJSON()))
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", 32<<10, strings.Repeat(" ", 32<<10))
	wide := `{"specVersion": "1.0", "entries": [` + strings.Repeat("{},", 340_000) + `{}]}`
	foreign := make([]string, 4000)
	for i := range foreign {
		foreign[i] = fmt.Sprintf(`{"identifier": "x%d", "type": "application/mcp-server-card+json", "url": "https://victim.example.net/%d", "tags": ["a", "b"]}`, i, i)
	}
	fixed := func(header, body string) func(*enemy) {
		b := []byte(body)
		return func(e *enemy) { e.body(header, b) }
	}
	return []attack{
		{"length lie, large", func(e *enemy) { e.say(okHead + "Content-Length: 10000000000\r\n\r\n{"); e.hold() }, 0},
		{"length lie, cut", func(e *enemy) { e.say(okHead + "Content-Length: 5000\r\n\r\n{}") }, 0},
		{"endless chunks", func(e *enemy) { e.say(okHead + "Transfer-Encoding: chunked\r\n\r\n"); e.forever(chunk) }, asRobots},
		{"endless chunk extension", func(e *enemy) {
			e.say(okHead + "Transfer-Encoding: chunked\r\n\r\n1;")
			e.forever(bytes.Repeat([]byte("a"), 4096))
		}, 0},
		{"chunks of one octet", func(e *enemy) {
			e.say(okHead + "Transfer-Encoding: chunked\r\n\r\n")
			e.forever(bytes.Repeat([]byte("1;"+strings.Repeat("x", 10)+"\r\n \r\n"), 100))
		}, asRobots},
		{"endless trailers", func(e *enemy) {
			e.say(okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
			e.forever(bytes.Repeat([]byte("A: b\r\n"), 1000))
		}, 0},
		{"endless without a length", func(e *enemy) { e.say(okHead + "\r\n"); e.forever(chunk) }, asRobots},
		{"gzip bomb", func(e *enemy) { e.body("Content-Encoding: gzip\r\n", zeros) }, asRobots},
		{"data after gzip", func(e *enemy) { e.body("Content-Encoding: gzip\r\n", append(good, "more"...)) }, 0},
		{"gzip cut", func(e *enemy) { e.body("Content-Encoding: gzip\r\n", zeros[:500]) }, 0},
		{"no gzip", fixed("Content-Encoding: gzip\r\n", "{}"), 0},
		{"encoding not offered", fixed("Content-Encoding: br\r\n", "{}"), 0},
		{"slow body", func(e *enemy) { e.say(okHead + "\r\n"); e.slowly(" ") }, 0},
		{"slow headers", func(e *enemy) { e.slowly("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 1000)) }, 0},
		{"silent", (*enemy).hold, 0},
		{"silent after headers", func(e *enemy) { e.say(okHead + "Content-Length: 10\r\n\r\n"); e.hold() }, 0},
		{"many headers", func(e *enemy) {
			e.say("HTTP/1.1 200 OK\r\n")
			for i := 0; i < 500_000 && e.err == nil; i += 1000 {
				e.bytes(bytes.Repeat([]byte("A: b\r\n"), 1000))
			}
			e.say("\r\n{}")
		}, 0},
		{"one long header", func(e *enemy) { e.say("HTTP/1.1 200 OK\r\nA: "); e.forever(bytes.Repeat([]byte("b"), 4096)) }, 0},
		{"endless 103", func(e *enemy) {
			e.forever(bytes.Repeat([]byte("HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"), 100))
		}, 0},
		{"206 unasked", func(e *enemy) {
			e.say("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 2\r\n\r\n{}")
		}, 0},
		{"304 unasked", func(e *enemy) { e.say("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n") }, 0},
		{"101", func(e *enemy) {
			e.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			e.hold()
		}, 0},
		{"status 999", func(e *enemy) { e.say("HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n") }, 0},
		{"no HTTP", func(e *enemy) { e.forever([]byte("SSH-2.0-OpenSSH_9.2\r\n\x00\x01\x02")) }, 0},
		{"closed", func(*enemy) {}, 0},
		{"redirect loop", func(e *enemy) { e.say("HTTP/1.1 302 Found\r\nLocation: ?\r\nContent-Length: 0\r\n\r\n") }, asRobots},
		{"redirect inside", func(e *enemy) {
			e.say("HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1/\r\nContent-Length: 0\r\n\r\n")
		}, 0},
		{"redirect with an endless body", func(e *enemy) {
			e.say("HTTP/1.1 302 Found\r\nLocation: https://metadata.internal/\r\n\r\n")
			e.forever(chunk)
		}, 0},
		{"deep JSON", fixed("", strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)), asRobots},
		{"deep objects", fixed("", `{"specVersion": "1.0", "entries": [], "x": `+strings.Repeat(`{"a":`, 100_000)+"1"+strings.Repeat("}", 100_001)), asRobots},
		{"wide JSON", fixed("", wide), asRobots | asCatalog},
		{"many cards of others", fixed("", `{"specVersion": "1.0", "entries": [`+strings.Join(foreign, ",")+`]}`), asRobots | asCatalog},
		{"many members", fixed("", `{"specVersion": "1.0", "entries": [], `+strings.Repeat(`"a": 1, `, 100_000)+`"b": 1}`), asRobots},
		{"NaN", fixed("", `{"specVersion": "1.0", "entries": [], "x": NaN}`), asRobots},
		{"huge number", fixed("", `{"specVersion": 1`+strings.Repeat("0", 900_000)+`, "entries": []}`), asRobots},
		{"lone surrogates", fixed("", `{"specVersion": "1.0", "entries": ["`+strings.Repeat(`\ud800`, 100_000)+`"]}`), asRobots},
		{"empty", fixed("", ""), asRobots},
		{"zeros", fixed("", strings.Repeat("\x00", 1<<20)), asRobots},
		{"page of links", fixed("", "<!doctype html><head>"+strings.Repeat(`<link rel="ai-catalog" href="/c">`, 30_000)), asRobots},
		{"page of tags", fixed("", "<!doctype html><head>"+strings.Repeat("<template><svg>", 70_000)), asRobots},
		{"patterns", fixed("", "User-agent: *\n"+strings.Repeat("Disallow: /*a*a*a*a*a*a*a*a$\n", 36_000)), asRobots},
		{"link headers", fixed(strings.Repeat(`Link: <https://victim.example.net/c>; rel="ai-catalog"`+"\r\n", 1000), "{}"), asRobots},
	}
}

func gzipped(r io.Reader) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.Copy(z, r)
	_ = z.Close()
	return b.Bytes()
}

// hostileSite serves one app, and an attack in the place of one of its
// documents.
type hostileSite struct {
	host   string
	attack attack
	target string // path of the attack
	ended  func(took time.Duration)
}

func (s *hostileSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == s.target:
		began := time.Now()
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		s.attack.answer(&enemy{Conn: conn})
		s.ended(time.Since(began))
	case r.URL.Path == wellKnownPath:
		_, _ = io.WriteString(w, catalogJSON("https://"+s.host+"/card"))
	case r.URL.Path == "/card":
		_, _ = io.WriteString(w, cardJSON("com.example/app", ""))
	default:
		http.NotFound(w, r)
	}
}

// heldPeak watches what the process holds, in real time, until stop: objects
// that a collection of garbage found in use, and stacks.
func heldPeak() (stop func() (most uint64)) {
	var most uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		held := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(held)
			most = max(most, held[0].Value.Uint64()+held[1].Value.Uint64())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	var once sync.Once
	return func() uint64 {
		once.Do(func() { close(done) })
		<-ended
		return most
	}
}

// warnings keeps what the crawler logs for its operator.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, string(p))
	return len(p), nil
}

// Five hundred sites that each answer with something hostile, among some that
// are good. Every one gets an outcome that says why; the good ones are listed;
// no request takes longer than its time, no visit longer than its lease, and
// server and crawler together stay within the crawler's memory.
func TestRule_CrawlerT3_HostileLoad(t *testing.T) {
	const (
		bad, good = 500, 25
		most      = 150 << 20
	)
	kinds := attacks()
	runtime.GC()
	held := heldPeak()
	defer held()
	var logged warnings
	inWorld(t, func(cfg *Config) {
		cfg.Workers = DefaultWorkers
		cfg.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}, func(t *testing.T, w *world) {
		var slowest atomic.Int64
		var sites []*hostileSite
		for i := range bad + good {
			s := &hostileSite{host: fmt.Sprintf("h%d.example.%s", i, []string{"com", "net", "org"}[i%3])}
			if i < bad {
				s.attack = kinds[i%len(kinds)]
				s.target = []string{wellKnownPath, "/card", "/robots.txt"}[i/len(kinds)%3]
				s.ended = func(took time.Duration) {
					for d := int64(took); ; {
						was := slowest.Load()
						if d <= was || slowest.CompareAndSwap(was, d) {
							return
						}
					}
				}
			}
			sites = append(sites, s)
			w.net.Handle(s.host, s)
			w.add(s.host)
		}
		w.net.Handle("victim.example.net", http.NotFoundHandler())
		w.until(10 * time.Minute)
		t.Logf("crawled in %s of its own time, %d visits; the longest request was held for %s", time.Since(w.start), w.visits, time.Duration(slowest.Load()))

		if d := time.Duration(slowest.Load()); d > publicnet.DefaultTimeout+time.Second { // a slow one notices a second later
			t.Errorf("a request lasted for %s", d)
		}
		for _, line := range logged.text {
			t.Errorf("logged: %s", line)
		}
		outcomes := make(map[string]int)
		for i, s := range sites {
			catalog, card := "https://"+s.host+wellKnownPath, "https://"+s.host+"/card"
			if i >= bad {
				if got := w.stands(card); got != "listed" {
					t.Errorf("good site %s: %q; %s", s.host, got, w.sentence(card))
				}
				continue
			}
			what, url := s.attack.name+" as "+s.target, catalog
			if s.target == "/card" {
				url = card
			}
			d, o := w.doc(url), w.newest(url)
			outcomes[s.attack.name+" "+s.target+": "+string(o.Code)]++
			if o.Sentence == "" || len(o.Steps) == 0 || strings.Contains(o.Sentence, "internal error") {
				t.Errorf("%s: outcome %+v", what, o)
			}
			if d.NextAt.Before(time.Now()) {
				t.Errorf("%s: next visit %s", what, d.NextAt)
			}
			want := "-"
			if s.target == "/robots.txt" && s.attack.mild&asRobots != 0 {
				want = "listed"
			}
			if got := w.stands(card); got != want {
				t.Errorf("%s: the app is %q, want %q; %s", what, got, want, w.sentence(url))
			}
			if want == "-" && d.Fault == "" && s.attack.mild&asCatalog == 0 {
				t.Errorf("%s: no reason; %s %s", what, o.Code, o.Sentence)
			}
		}
		if testing.Verbose() {
			var lines []string
			for k, n := range outcomes {
				lines = append(lines, fmt.Sprintf("%3d %s", n, k))
			}
			slices.Sort(lines)
			t.Log("outcomes\n" + strings.Join(lines, "\n"))
		}
	})
	n := held()
	t.Logf("held at most %d MiB", n>>20)
	if n > most {
		t.Errorf("%d MiB were held", n>>20)
	}
}

// newest is the newest outcome of a document.
func (w *world) newest(url string) index.Outcome {
	w.t.Helper()
	o, err := w.store.Outcomes(w.t.Context(), url, 1)
	if err != nil || len(o) == 0 {
		w.t.Fatalf("%s: %d outcomes, %v", url, len(o), err)
	}
	return o[0]
}
