package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
	"github.com/openbot-build/openbot-go/internal/webtest"
)

// An index.Store has all that the surfaces and the search index ask for.
var (
	_ Store         = index.Store(nil)
	_ search.Source = index.Store(nil)
)

func TestRule_OB143_SubmissionsRevealNothing(t *testing.T) {
	webtest.Run(t, open(t, sample(t), nil), "testdata/submit.txt")
	m := newMemory()
	s := open(t, m, func(o *Options) { o.Rates.Submit = 0 })
	post := func(address, from string) (int, string, string) {
		body, _ := json.Marshal(map[string]string{"url": address})
		w := s.do(http.MethodPost, "/v1/submissions", string(body), "X-Test", from)
		return w.Code, w.Header().Get("Retry-After"), w.Body.String()
	}
	// Ten a minute for one client.
	var answer string
	for i := range 10 {
		code, _, body := post(fmt.Sprintf("https://h%d.example.com/", i), "")
		if code != http.StatusAccepted || answer != "" && body != answer {
			t.Fatalf("submission %d: %d %s", i, code, body)
		}
		answer = body
	}
	if code, retry, _ := post("https://h10.example.com/", ""); code != http.StatusTooManyRequests || retry != "6" {
		t.Errorf("the eleventh: %d, Retry-After %q", code, retry)
	}
	if len(m.added) != 10 || m.added[0] != (index.NewDoc{URL: "https://h0.example.com/", Class: index.ClassUser, Ping: true}) {
		t.Errorf("added %+v", m.added)
	}
	// A target's host has the same limit, whoever asks.
	m2 := newMemory()
	s = open(t, m2, func(o *Options) {
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		o.Rates.Submit = 0
	})
	last := 0
	for i := range 11 {
		w := s.do(http.MethodPost, "/v1/submissions", fmt.Sprintf(`{"url":"https://one.example.com/%d"}`, i), "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))
		last = w.Code
	}
	if last != http.StatusTooManyRequests || len(m2.added) != 10 {
		t.Errorf("eleven clients on one host: %d, %d added", last, len(m2.added))
	}
	// A bare domain stands for its catalog; addresses that nobody public has
	// are not even stored. Turned away by the frontier's limits: no difference.
	m3 := newMemory()
	s = open(t, m3, nil)
	for _, a := range []string{"Shop.Example.com", "https://10.1.2.3/", "https://[fe80::1]/x", "https://2130706433/", "shop.example.com/page", "https://shop.example.com:8443/c"} {
		if code, _, body := post(a, ""); code != http.StatusAccepted || body != answer {
			t.Errorf("%s: %d %s", a, code, body)
		}
	}
	want := []index.NewDoc{
		{URL: "https://shop.example.com/.well-known/ai-catalog.json", Kind: index.CatalogDoc, Class: index.ClassUser, Ping: true},
		{URL: "https://shop.example.com/page", Class: index.ClassUser, Ping: true},
		{URL: "https://shop.example.com:8443/c", Class: index.ClassUser, Ping: true},
	}
	if diff := cmp.Diff(want, m3.added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	m3.capped = true
	if code, _, body := post("https://capped.example.com/", ""); code != http.StatusAccepted || body != answer {
		t.Errorf("capped: %d %s", code, body)
	}
	m3.fail = index.ErrFull
	if code, _, body := post("https://x.example.com/", ""); code != http.StatusServiceUnavailable || strings.Contains(body, "disk") {
		t.Errorf("a full disk: %d %s", code, body)
	}
}

// OB-144: no query, path or client in logs or measures, whatever goes wrong.
func TestRule_OB144_NothingAboutClientsIsKept(t *testing.T) {
	var logs bytes.Buffer
	reader := sdk.NewManualReader()
	m := sample(t)
	s := open(t, m, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&logs, nil))
		o.Meter = sdk.NewMeterProvider(sdk.WithReader(reader))
	})
	s.get("/v1/apps?q=secretquery&limit=3")
	s.get("/?q=secretquery")
	s.get("/secretpath")
	s.get("/v1/apps/by-card?url=https://secretcard.example.com/")
	s.get("/v1/apps?secretparam=1")
	m.fail = errors.New("the disk is on fire")
	s.get("/v1/apps/by-card?url=https://secretcard.example.com/")
	s.get("/v1/stats")
	s.do(http.MethodPost, "/v1/submissions", `{"url":"https://secrettarget.example.com/"}`)
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	measures, err := json.Marshal(rm)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{logs.String(), string(measures)} {
		for _, secret := range []string{"secret", "198.51.100.7"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is kept: %s", secret, text)
			}
		}
	}
	for _, name := range []string{"openbot.api.requests", "openbot.api.duration", "openbot.search.duration", "openbot.index.seq", "openbot.index.live", "/v1/apps/by-card"} {
		if !strings.Contains(string(measures), name) {
			t.Errorf("no measure %s", name)
		}
	}
	if !strings.Contains(logs.String(), "on fire") {
		t.Error("a failed store is not logged")
	}
}

func TestRule_IX13_Ready(t *testing.T) {
	m := newMemory()
	m.fail = errors.New("away")
	s := open(t, m, func(o *Options) { o.Now = time.Now; o.MaxLag = time.Minute })
	w := s.get("/readyz")
	if v := object(t, w); w.Code != http.StatusServiceUnavailable || v["loaded"] != false || v["storeReachable"] != false {
		t.Errorf("not loaded: %d %v", w.Code, v)
	}
	refused(t, s.get("/v1/apps?q=x"), http.StatusServiceUnavailable, "not loaded")
	if w := s.get("/?q=x"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("page: %d", w.Code)
	}
	if w := s.get("/healthz"); w.Code != http.StatusOK {
		t.Errorf("healthz: %d", w.Code)
	}

	m = sample(t)
	var late time.Duration
	s = open(t, m, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(late) }; o.MaxLag = time.Minute })
	v := object(t, s.get("/readyz"))
	if v["ready"] != true || v["epoch"] != "e1" || v["seq"] != 4.0 || v["head"] != 4.0 || v["storeReachable"] != true || v["live"] != 3.0 {
		t.Errorf("ready: %v", v)
	}
	// A lost store alone takes no node out.
	m.mu.Lock()
	m.fail = errors.New("away")
	m.mu.Unlock()
	if w := s.get("/readyz"); w.Code != http.StatusOK || object(t, w)["storeReachable"] != false {
		t.Errorf("lost store: %d", w.Code)
	}
	late = 2 * time.Minute
	if w := s.get("/readyz"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("lag: %d", w.Code)
	}
}

func TestRule_IX41_OverloadAndPanics(t *testing.T) {
	var logs bytes.Buffer
	s := open(t, sample(t), func(o *Options) { o.MaxSearches = 2; o.Log = slog.New(slog.NewTextHandler(&logs, nil)) })
	h := handlerOf(t, s, func(o *Options) { o.MaxSearches = 2 })
	h.slots <- struct{}{}
	if _, p := h.find(t.Context(), ask{q: "weather"}); p != nil {
		t.Fatalf("one place is free: %v", p)
	}
	h.slots <- struct{}{}
	if _, p := h.find(t.Context(), ask{q: "weather"}); p == nil || p.Status != http.StatusServiceUnavailable || p.GetHeaders().Get("Retry-After") != "1" {
		t.Errorf("one search too many: %+v", p)
	}
	<-h.slots
	if _, p := h.find(t.Context(), ask{q: "weather"}); p != nil {
		t.Errorf("a place is free again: %v", p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, p := h.find(ctx, ask{q: "weather"}); p == nil || p.Status != http.StatusServiceUnavailable {
		t.Errorf("a search without time: %+v", p)
	}

	broken := &panicking{sample(t)}
	s = open(t, broken.memory, func(o *Options) { o.Store = broken; o.Log = slog.New(slog.NewTextHandler(&logs, nil)) })
	refused(t, s.get("/v1/apps/by-card?url=https://panic.example.com/"), http.StatusInternalServerError, "on its side")
	if w := s.get("/apps/" + index.ID("https://panic.example.com/")); w.Code != http.StatusInternalServerError || !strings.Contains(w.Header().Get("Content-Type"), "html") || strings.Contains(w.Body.String(), "bug inside") {
		t.Errorf("page: %d %s", w.Code, w.Body)
	}
	if w := s.get("/v1/apps?q=weather"); w.Code != http.StatusOK {
		t.Errorf("after a panic: %d", w.Code)
	}
	if !strings.Contains(logs.String(), "bug inside") {
		t.Error("the panic is not logged")
	}
}

// panicking is a store with a bug.
type panicking struct{ *memory }

func (p *panicking) Get(context.Context, string) (*index.Entry, error) { panic("bug inside") }

// handlerOf gives the inside of a handler over a site's index.
func handlerOf(t testing.TB, s *site, change func(*Options)) *handler {
	t.Helper()
	opts := Options{Store: s.store, Search: s.search, CursorKey: []byte("0123456789abcdef"), MaxLag: time.Minute, Now: time.Now}
	if change != nil {
		change(&opts)
	}
	h := &handler{opts: opts, log: slog.New(slog.DiscardHandler), slots: make(chan struct{}, max(opts.MaxSearches, 1)), cursors: cursors{opts.CursorKey}}
	var err error
	if h.metrics, err = newMetrics(sdk.NewMeterProvider(), h); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRule_IX61_CORS(t *testing.T) { webtest.Run(t, open(t, sample(t), nil), "testdata/cors.txt") }

func TestRule_IX62_TagsAndCaching(t *testing.T) {
	m := sample(t)
	s := open(t, m, nil)
	tag := func(path string) string { return s.get(path).Header().Get("ETag") }
	paths := []string{"/v1/apps", "/v1/apps?limit=2", "/v1/apps?q=weather", "/v1/apps?q=Weather", "/v1/apps?q=weather&limit=2", "/?q=weather", "/"}
	seen := make(map[string]string)
	for _, p := range paths {
		if other, ok := seen[tag(p)]; ok {
			t.Errorf("%s and %s have one ETag", p, other)
		}
		seen[tag(p)] = p
	}
	id := "/v1/apps/" + index.ID("https://calendar.example.com/card")
	list, one := tag("/v1/apps"), tag(id)
	m.put(entryFor(t, "https://fresh.example.com/card", "Fresh", "Text."))
	s.sync(t)
	if tag("/v1/apps") == list || tag(id) != one {
		t.Error("a change elsewhere: lists have a new ETag, other entries do not")
	}
	for path, cache := range map[string]string{
		"/v1/apps": keepShort, id: keepShort, "/": keepShort, "/v1/nothing": "public, max-age=10", "/v1/apps?x": "no-store", "/healthz": "no-store",
	} {
		if got := s.get(path).Header().Get("Cache-Control"); got != cache {
			t.Errorf("%s: Cache-Control %q, want %q", path, got, cache)
		}
	}
	for header, want := range map[string]bool{`*`: true, `"a"`: true, `W/"a"`: true, `"b", W/"a"`: true, `"b"`: false, `a`: false, ``: false} {
		if matches(header, `W/"a"`) != want {
			t.Errorf("If-None-Match: %s", header)
		}
	}
}

func TestRule_IX63_RateLimits(t *testing.T) {
	now := day
	s := open(t, sample(t), func(o *Options) {
		o.Rates = Rates{Search: 3, Read: 5}
		o.Now = func() time.Time { return now }
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	for i := range 3 {
		if w := s.get("/v1/apps?q=weather"); w.Code != http.StatusOK {
			t.Fatalf("search %d: %d", i, w.Code)
		}
	}
	w := s.get("/v1/apps?q=weather")
	refused(t, w, http.StatusTooManyRequests)
	if w.Header().Get("Retry-After") != "20" || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("headers %v", w.Header())
	}
	if w := s.get("/?q=weather"); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Header().Get("Content-Type"), "html") {
		t.Errorf("page: %d", w.Code)
	}
	// A peer that is no trusted proxy speaks for nobody else.
	if w := s.get("/v1/apps?q=weather", "X-Forwarded-For", "203.0.113.1"); w.Code != http.StatusTooManyRequests {
		t.Errorf("forged address: %d", w.Code)
	}
	// Health is never limited, other reads have a limit of their own, 304 is free.
	tag := s.get("/v1/apps").Header().Get("ETag")
	for range 30 {
		if w := s.get("/v1/apps", "If-None-Match", tag); w.Code != http.StatusNotModified {
			t.Fatalf("304: %d", w.Code)
		}
		if w := s.get("/healthz"); w.Code != http.StatusOK {
			t.Fatalf("healthz: %d", w.Code)
		}
	}
	codes := []int{}
	for range 5 {
		codes = append(codes, s.get("/v1/apps").Code)
	}
	if !slices.Equal(codes, []int{200, 200, 200, 200, 429}) {
		t.Errorf("reads: %v", codes)
	}
	now = now.Add(20 * time.Second)
	if w := s.get("/v1/apps?q=weather"); w.Code != http.StatusOK {
		t.Errorf("after Retry-After: %d", w.Code)
	}
}

func TestClient(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tc := range []struct{ remote, forwarded, want string }{
		{"198.51.100.7:1", "", "198.51.100.7"},
		{"198.51.100.7:1", "203.0.113.9", "198.51.100.7"},
		{"10.0.0.1:1", "203.0.113.9", "203.0.113.9"},
		{"10.0.0.1:1", "1.1.1.1, 203.0.113.9, 10.2.2.2", "203.0.113.9"},
		{"10.0.0.1:1", "rubbish", "10.0.0.1"},
		{"10.0.0.1:1", "1.1.1.1, rubbish", "10.0.0.1"},
		{"10.0.0.1:1", "", "10.0.0.1"},
		{"[2001:db8:1:2:3::4]:1", "", "2001:db8:1:2::/64"},
		{"[fe80::1%eth0]:1", "", "fe80::/64"},
		{"[::ffff:198.51.100.7]:1", "", "198.51.100.7"},
		{"[fd00::1]:1", "2001:db8::9", "2001:db8::/64"},
		{"@", "", "unknown"},
	} {
		r := &http.Request{RemoteAddr: tc.remote, Header: http.Header{}}
		if tc.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tc.forwarded)
		}
		if got := client(r, trusted); got != tc.want {
			t.Errorf("%s forwarded for %q: %s, want %s", tc.remote, tc.forwarded, got, tc.want)
		}
	}
}

func TestLimiter_isBounded(t *testing.T) {
	l := newLimiter(1)
	for i := range 3 * maxClients {
		l.take(fmt.Sprint(i), day)
	}
	if len(l.now)+len(l.old) > 2*maxClients {
		t.Errorf("%d clients known", len(l.now)+len(l.old))
	}
	if _, wait := l.take(fmt.Sprint(3*maxClients-1), day); wait == 0 {
		t.Error("the newest client is forgotten")
	}
}

func TestRule_IX64_Compression(t *testing.T) {
	m := newMemory()
	for i := range 20 {
		m.put(entryFor(t, fmt.Sprintf("https://h%d-x.com/card", i), "Chess", "Text."))
	}
	s := open(t, m, nil)
	w := s.get("/v1/apps", "Accept-Encoding", "gzip")
	if w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Vary") != "Accept-Encoding" || w.Body.Len() > 3000 {
		t.Errorf("%v, %d bytes", w.Header(), w.Body.Len())
	}
	if w := s.get("/healthz", "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
	if w := s.get("/v1/apps", "Accept-Encoding", "gzip", "If-None-Match", w.Header().Get("ETag")); w.Code != http.StatusNotModified {
		t.Errorf("304 of a compressed answer: %d", w.Code)
	}
}

func TestNew_refusesBadOptions(t *testing.T) {
	m, x := newMemory(), search.New(nil)
	for name, o := range map[string]*Options{"nil": nil, "Store": {Search: x}, "Search": {Store: m}, "CursorKey": {Store: m, Search: x, CursorKey: []byte("short")}} {
		if _, err := New(o); err == nil || name != "nil" && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Options are copied, and several handlers live side by side.
	o := &Options{Store: m, Search: x}
	for range 2 {
		if _, err := New(o); err != nil {
			t.Fatal(err)
		}
	}
	if o.Now != nil || o.MaxLag != 0 {
		t.Error("New changed its options")
	}
}
