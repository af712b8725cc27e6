package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
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
	if w := s.do(http.MethodPost, "/submit", "url="+strings.Repeat("a", maxBody), "Content-Type", "application/x-www-form-urlencoded"); w.Code != http.StatusRequestEntityTooLarge {
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
	refused(t, s.get("/v1/apps?q=go&cursor="+next), http.StatusBadRequest, "q must be the query")
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
	refused(t, s.get("/v1/apps?cursor="+next[:len(next)-1]), http.StatusBadRequest, "cursor must be")
	refused(t, s.get("/v1/apps?cursor="+next+"A"), http.StatusBadRequest, "cursor must be")
	other := open(t, m, func(o *Options) { o.CursorKey = nil })
	refused(t, other.get("/v1/apps?cursor="+next), http.StatusBadRequest, "cursor must be")

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
		"other epoch":   {func(c *cursor) { c.Position.Epoch = "restored" }, http.StatusOK},
	} {
		c := cur
		tc.change(&c)
		text := own.encode(c)
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
		h.await(t.Context(), cursor{Position: search.Position{Epoch: "e1"}, Seq: 1 << 40})
		if took := time.Since(begin); took != time.Second {
			t.Errorf("waited %v", took)
		}
		begin = time.Now()
		h.await(t.Context(), cursor{Position: search.Position{Epoch: "other"}, Seq: 1 << 40})
		h.await(t.Context(), cursor{Position: search.Position{Epoch: "e1"}, Seq: 1})
		if time.Since(begin) != 0 {
			t.Error("waited for nothing")
		}
	})
}

// What a cursor says is not contradicted; a longest query's cursor fits with
// all that it carries.
func TestRule_IX43_LimitIsTheCursors(t *testing.T) {
	m := newMemory()
	for i := range 30 {
		m.put(entryFor(t, fmt.Sprintf("https://h%d-x.com/card", i), "Chess", "Text."))
	}
	s := open(t, m, nil)
	next := object(t, s.get("/v1/apps?q=chess&limit=7"))["nextCursor"].(string)
	w := s.get("/v1/apps?limit=8&cursor=" + next)
	if !strings.Contains(w.Body.String(), `"name":"limit"`) {
		t.Errorf("%s", w.Body)
	}
	refused(t, w, http.StatusBadRequest, "limit must be that of the cursor, 7")
	if w := s.get("/v1/apps?limit=7&q=%20chess%20&cursor=" + next); w.Code != http.StatusOK {
		t.Errorf("repeated: %d %s", w.Code, w.Body)
	}
}

func TestRule_IX39_TheLongestCursorFits(t *testing.T) {
	// Words of letters that take four octets each, all of them in the index,
	// the last one with 64 beginnings.
	letter := func(i int) string { return string(rune(0x10428 + i)) }
	var words []string
	for i := range 12 {
		words = append(words, strings.Repeat(letter(i), 15))
	}
	words[11] = strings.Repeat(letter(11), 9)
	m := newMemory()
	for i := range 80 {
		m.put(entryFor(t, fmt.Sprintf("https://h%d-x.com/card", i), strings.Join(words[:4], " ")+" "+words[11]+letter(i%40)+letter(i/40), "Text.", func(e *index.Entry, _ *card.Card) {
			e.Tags = words
		}))
	}
	m.epoch = "0123456789abcdef"
	s := open(t, m, nil)
	q := strings.Join(words, " ")
	if n := len([]rune(q)); n > search.MaxQueryRunes || n < 180 {
		t.Fatalf("%d characters", n)
	}
	next := object(t, s.get("/v1/apps?limit=15&q="+escape(q)))["nextCursor"].(string)
	cur, err := cursors{[]byte("0123456789abcdef")}.decode(next)
	if err != nil || len(next) > maxCursor || len(cur.Position.Shown) != 10 || len(cur.Position.Counts) < 64*5 {
		t.Errorf("%d bytes, %d shown, counts of %d: %v", len(next), len(cur.Position.Shown), len(cur.Position.Counts), err)
	}
	// One that would be longer goes without its counts.
	cur.Position.Counts = make([]byte, 1200)
	if text := (cursors{[]byte("0123456789abcdef")}).encode(cur); len(text) > maxCursor {
		t.Errorf("%d bytes", len(text))
	}
}

// Pages do not drift when the entry of the cursor goes or changes.
func TestRule_IX44_TheCursorsOwnEntryChanges(t *testing.T) {
	for name, change := range map[string]func(m *memory, e *index.Entry){
		"goes":        func(m *memory, e *index.Entry) { m.put(removed(e.CardURL, index.Removed, index.ReasonDelisted)) },
		"is retitled": func(m *memory, e *index.Entry) { m.put(entryFor(t, e.CardURL, "Chess and more", "Text.")) },
		"others come": func(m *memory, _ *index.Entry) {
			for i := range 50 {
				m.put(entryFor(t, fmt.Sprintf("https://other%d-x.com/card", i), "Weather", "Text."))
			}
		},
	} {
		m := newMemory()
		for i := range 60 {
			m.put(entryFor(t, fmt.Sprintf("https://h%d-x.com/card", i), "Chess", "Text."))
		}
		s := open(t, m, nil)
		for _, path := range []string{"/v1/apps?q=chess&limit=20", "/v1/apps?limit=20"} {
			v := object(t, s.get(path))
			before, seen := hostsOf(object(t, s.get(strings.Replace(path, "=20", "=100", 1)))), make(map[string]int)
			got := hostsOf(v)
			change(m, m.entries[index.ID("https://"+got[19]+"/card")])
			s.sync(t)
			for v["nextCursor"] != nil {
				v = object(t, s.get("/v1/apps?cursor="+v["nextCursor"].(string)))
				got = append(got, hostsOf(v)...)
			}
			for _, host := range got {
				seen[host]++
			}
			for _, host := range before {
				if seen[host] != 1 {
					t.Errorf("%s, %s: %s comes %d times", name, path, host, seen[host])
				}
			}
		}
	}
}

// A query of which nothing can be seen is no query, anywhere.
func TestBlankQueries(t *testing.T) {
	s := open(t, sample(t), func(o *Options) { o.Rates = Rates{Search: 1, Read: -1} })
	s.get("/v1/apps?q=weather") // the one search
	for _, q := range []string{"%20", "%E2%80%AE", "%E2%80%8B", "%09"} {
		v := object(t, s.get("/v1/apps?q="+q))
		if len(hostsOf(v)) != 3 || len(v["query"].(map[string]any)) != 0 {
			t.Errorf("q=%s: %v", q, v)
		}
		if w := s.get("/?q=" + q); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "All apps") {
			t.Errorf("page q=%s: %d", q, w.Code)
		}
	}
	// A page of the listing is no search; a cursor knows what it goes on with.
	next := object(t, s.get("/v1/apps?limit=1"))["nextCursor"].(string)
	for range 3 {
		if w := s.get("/v1/apps?cursor=" + next); w.Code != http.StatusOK {
			t.Errorf("a page of the listing: %d", w.Code)
		}
	}
	cur, err := s.cursors().decode(next)
	if err != nil {
		t.Fatal(err)
	}
	cur.Query = "weather"
	if w := s.get("/v1/apps?cursor=" + s.cursors().encode(cur)); w.Code != http.StatusTooManyRequests {
		t.Errorf("a page of a search: %d", w.Code)
	}
}
