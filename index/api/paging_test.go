package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/index"
)

func TestRule_IX39_LimitsAtNAndOneMore(t *testing.T) {
	s := open(t, sample(t), nil)
	for _, tc := range []struct {
		path string
		code int
	}{
		{"/v1/apps?q=" + strings.Repeat("%E6%A3%8B", 200), 200},
		{"/v1/apps?q=" + strings.Repeat("%E6%A3%8B", 201), 400},
		{"/?q=" + strings.Repeat("x", 200), 200},
		{"/?q=" + strings.Repeat("x", 201), 400},
		{"/v1/apps?limit=100", 200},
		{"/v1/apps?limit=101", 400},
		{"/v1/apps?limit=1", 200},
		{"/v1/apps?limit=0", 400},
		{"/v1/apps?limit=-1", 400},
		{"/v1/apps?cursor=" + strings.Repeat("A", maxCursor+1), 400},
	} {
		if w := s.get(tc.path); w.Code != tc.code {
			t.Errorf("%.40s: %d, want %d: %s", tc.path, w.Code, tc.code, w.Body)
		}
	}
	for n, code := range map[int]int{maxBody: http.StatusAccepted, maxBody + 1: http.StatusRequestEntityTooLarge} {
		body := `{"url":"https://a.example.com/"}`
		body += strings.Repeat(" ", n-len(body))
		w := s.do(http.MethodPost, "/v1/submissions", body)
		if w.Code != code {
			t.Errorf("body of %d bytes: %d %s", n, w.Code, w.Body)
		}
		if code != http.StatusAccepted && w.Header().Get("Content-Type") != problemType {
			t.Errorf("body of %d bytes: %s", n, w.Header().Get("Content-Type"))
		}
	}
	if w := s.do(http.MethodPost, "/submit", "url="+strings.Repeat("a", maxBody), "Content-Type", "application/x-www-form-urlencoded"); w.Code != http.StatusBadRequest {
		t.Errorf("form of more than 16 KiB: %d", w.Code)
	}
	// The longest query's cursor fits, whatever its characters.
	m := newMemory()
	for i := range 30 {
		m.put(entryFor(t, fmt.Sprintf("https://h%d-x.com/card", i), strings.Repeat("棋", 3), "Text."))
	}
	s = open(t, m, nil)
	for _, char := range []string{"棋", "😀", "\"", "<", "\u2028", "\x01"} {
		q := strings.Repeat("棋", 3) + strings.Repeat(char, 197)
		v := object(t, s.get("/v1/apps?limit=5&q="+strings.ReplaceAll(escape(q), "+", "%20")))
		next, _ := v["nextCursor"].(string)
		if next == "" || len(next) > maxCursor {
			t.Errorf("%q: cursor of %d bytes", char, len(next))
		} else if w := s.get("/v1/apps?cursor=" + next); w.Code != http.StatusOK {
			t.Errorf("%q: %d %s", char, w.Code, w.Body)
		}
	}
}

func TestRule_IX40_EveryClassOfQuery(t *testing.T) {
	s := open(t, sample(t), nil)
	for _, q := range []string{"", "the", "a", "ca", "com", "zzzz", "+", "   ", "天", "天气", "🎉"} {
		if w := s.get("/v1/apps?q=" + escape(q)); w.Code != http.StatusOK {
			t.Errorf("%q: %d %s", q, w.Code, w.Body)
		}
	}
}

func TestRule_IX43_Cursors(t *testing.T) {
	m := newMemory()
	for i := range 30 {
		m.put(entryFor(t, fmt.Sprintf("https://h%d-x.com/card", i), "Chess", "Text."))
	}
	s := open(t, m, nil)
	first := object(t, s.get("/v1/apps?q=chess&limit=7"))
	next := first["nextCursor"].(string)
	if strings.ContainsAny(next, "+/=") {
		t.Errorf("cursor %q is not safe in an address", next)
	}
	// It needs no other parameter, and may be repeated but not contradicted.
	second := object(t, s.get("/v1/apps?cursor="+next))
	if len(hostsOf(second)) != 7 {
		t.Errorf("%d items after a cursor alone", len(hostsOf(second)))
	}
	if diff := cmp.Diff(hostsOf(second), hostsOf(object(t, s.get("/v1/apps?q=chess&limit=7&cursor="+next)))); diff != "" {
		t.Error(diff)
	}
	refused(t, s.get("/v1/apps?q=go&cursor="+next), http.StatusBadRequest, "q: ")
	// Altered, foreign, cut.
	for i := range len(next) {
		c := byte('A')
		if next[i] == c {
			c = 'B'
		}
		if w := s.get("/v1/apps?cursor=" + next[:i] + string(c) + next[i+1:]); w.Code != http.StatusBadRequest {
			t.Fatalf("byte %d altered: %d", i, w.Code)
		}
	}
	refused(t, s.get("/v1/apps?cursor="+next[:len(next)-1]), http.StatusBadRequest, "cursor: ")
	refused(t, s.get("/v1/apps?cursor="+next+"A"), http.StatusBadRequest, "cursor: ")
	other := open(t, m, func(o *Options) { o.CursorKey = nil })
	refused(t, other.get("/v1/apps?cursor="+next), http.StatusBadRequest, "cursor: ")

	own := cursors{[]byte("0123456789abcdef")}
	cur, err := own.decode(next)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*cursor)
		code   int
	}{
		"other ranker":  {func(c *cursor) { c.Ranker++ }, http.StatusGone},
		"other surface": {func(c *cursor) { c.Surface = "v0.1" }, http.StatusBadRequest},
		"other version": {func(c *cursor) { c.Version++ }, http.StatusBadRequest},
		"other epoch":   {func(c *cursor) { c.Epoch = "restored" }, http.StatusOK},
	} {
		c := cur
		tc.change(&c)
		text, err := own.encode(c)
		if err != nil {
			t.Fatal(err)
		}
		if w := s.get("/v1/apps?cursor=" + text); w.Code != tc.code {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func escape(q string) string {
	var b strings.Builder
	for _, c := range []byte(q) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

func TestRule_IX44_PagesDoNotDrift(t *testing.T) {
	m := newMemory()
	var entries []*index.Entry
	for i := range 40 {
		entries = append(entries, entryFor(t, fmt.Sprintf("https://h%d-x.com/card", i), "Chess", "Text."))
	}
	m.put(entries...)
	s := open(t, m, nil)
	for _, path := range []string{"/v1/apps?q=chess&limit=11", "/v1/apps?limit=11"} {
		var got []string
		v := object(t, s.get(path))
		for i := 0; ; i++ {
			got = append(got, hostsOf(v)...)
			next, _ := v["nextCursor"].(string)
			if next == "" {
				break
			}
			// Apps come while the client pages.
			for k := range 3 {
				m.put(entryFor(t, fmt.Sprintf("https://new%d-%d-%d.com/card", len(path), i, k), "Chess", "Text."))
			}
			s.sync(t)
			v = object(t, s.get("/v1/apps?cursor="+next))
		}
		seen := make(map[string]int)
		for _, host := range got {
			seen[host]++
		}
		for i := range 40 {
			if host := fmt.Sprintf("h%d-x.com", i); seen[host] != 1 {
				t.Errorf("%s: %s comes %d times", path, host, seen[host])
			}
		}
	}
	// A node behind the cursor's point waits a second, then answers.
	synctest.Test(t, func(t *testing.T) {
		h := &handler{opts: Options{Search: s.search}}
		begin := time.Now()
		h.await(t.Context(), cursor{Epoch: "e1", Seq: 1 << 40})
		if took := time.Since(begin); took != time.Second {
			t.Errorf("waited %v", took)
		}
		begin = time.Now()
		h.await(t.Context(), cursor{Epoch: "other", Seq: 1 << 40})
		h.await(t.Context(), cursor{Epoch: "e1", Seq: 1})
		if time.Since(begin) != 0 {
			t.Error("waited for nothing")
		}
	})
}
