package check

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/robots"
)

// foreign is the origin that a browser-like request comes from. Nobody can own
// it, so nobody can have allowed it.
const foreign = "https://openbot-check.invalid"

// reply is one answer, whatever its status.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// ask sends one request and follows no redirect.
func ask(ctx context.Context, client *http.Client, method, address string, header http.Header, body string) (*reply, error) {
	ctx, _ = publicnet.WithLimits(ctx, publicnet.Limits{MaxBytes: endpointBytes, Timeout: endpointTime})
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if header != nil {
		r.Header = header.Clone()
	}
	one := *client
	one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := one.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body) // the client limits it
	if err != nil {
		return nil, err
	}
	return &reply{status: res.StatusCode, header: res.Header, body: data}, nil
}

// judgeBrowser asks for a document as a browser does before a conditional GET,
// and with HEAD.
func (w *walk) judgeBrowser(ctx context.Context, s *Section, d *discovery.Document, kind discovery.Want) {
	r, err := ask(ctx, w.client, http.MethodOptions, d.FinalURL, http.Header{
		"Origin": {foreign}, "Access-Control-Request-Method": {http.MethodGet}, "Access-Control-Request-Headers": {"if-none-match"},
	}, "")
	var wrong string
	switch {
	case err != nil:
		wrong = "a preflight (OPTIONS) gets no answer"
	case r.status < 200 || r.status > 299:
		wrong = fmt.Sprintf("a preflight (OPTIONS) gets status %d", r.status)
	case !slices.Contains([]string{"*", foreign}, r.header.Get("Access-Control-Allow-Origin")):
		wrong = "the answer to a preflight (OPTIONS) lacks Access-Control-Allow-Origin: *"
	case !hasWord(r.header.Values("Access-Control-Allow-Headers"), "if-none-match"):
		wrong = "the answer to a preflight (OPTIONS) does not allow the header If-None-Match"
	}
	const advice = "%s: answer 204 with Access-Control-Allow-Methods: GET and Access-Control-Allow-Headers: Content-Type, If-None-Match, or hosts that run in a browser cannot ask for changes"
	switch {
	case wrong == "":
		s.pass("OB-8", "a browser may ask for changes (preflight, status %d)", r.status)
	case kind == discovery.WantCard:
		s.fault("OB-8", "", advice, wrong)
	default:
		s.advise("OB-8", "", advice, wrong)
	}
	r, err = ask(ctx, w.client, http.MethodHead, d.FinalURL, nil, "")
	switch {
	case err != nil:
		s.advise("OB-7", "", "HEAD gets no answer: answer it as GET, without the body")
	case r.status != http.StatusOK:
		s.advise("OB-7", "", "HEAD gets status %d: answer it as GET, without the body", r.status)
	case r.header.Get("Content-Type") != d.Header.Get("Content-Type") || r.header.Get("ETag") != d.Header.Get("ETag"):
		s.advise("OB-7", "", "HEAD gives other headers than GET: Content-Type and ETag belong to both")
	default:
		s.pass("OB-7", "HEAD answers as GET")
	}
}

// unknownPath is asked for on each origin that serves documents.
const unknownPath = "/.well-known/openbot-check-no-such-document"

// judgeOrigins looks at what is true of a whole origin: whether it answers every
// path with a page, and what it tells crawlers.
func (w *walk) judgeOrigins(ctx context.Context, rep *Report) {
	var origins []string
	for _, d := range w.docs {
		if u, err := weburl.Parse(d.FinalURL); err == nil && d.Status == http.StatusOK && !slices.Contains(origins, u.Origin()) {
			if kind, _, err := discovery.Classify(d); err == nil && kind != discovery.WantPage {
				origins = append(origins, u.Origin())
			}
		}
	}
	slices.Sort(origins)
	found := make([]*reply, len(origins))
	files := make([]robots.File, len(origins))
	w.each(len(origins), func(i int) {
		found[i], _ = ask(ctx, w.client, http.MethodGet, origins[i]+unknownPath, nil, "") // no answer says nothing about this rule
		files[i] = w.robots(ctx, origins[i])
	})
	for i, r := range found {
		s := rep.Section("origin", origins[i])
		w.judgeRobots(s, origins[i], &files[i])
		if r == nil {
			continue
		}
		if r.status == http.StatusNotFound || r.status == http.StatusGone {
			s.pass("OB-7", "an unknown path under /.well-known/ gets %d", r.status)
		} else {
			s.advise("OB-7", "", "an unknown path under /.well-known/ gets status %d: answer 404, so that what is not there is not taken for something else", r.status)
		}
	}
}

// robots reads an origin's robots.txt as a crawler does.
func (w *walk) robots(ctx context.Context, origin string) robots.File {
	answer := robots.Answer{}
	u, err := weburl.Parse(origin + "/robots.txt")
	if err == nil {
		var d *discovery.Document
		if d, err = fetch.Get(ctx, w.client, &fetch.Request{URL: u, MaxBytes: robots.MaxBytes, Truncate: true}); err == nil {
			answer = robots.Answer{Status: d.Status, Body: d.Body, Truncated: d.Truncated, FinalURL: d.FinalURL}
		}
	}
	answer.Err = err
	return robots.File{}.Next(answer, time.Now())
}

// judgeRobots says which documents of an origin a crawler may not read. A host
// does not ask (D13).
func (w *walk) judgeRobots(s *Section, origin string, file *robots.File) {
	kept := true
	for _, d := range w.inOrder(nil) {
		u, err := weburl.Parse(d.FinalURL)
		if err != nil || u.Origin() != origin || d.Status != http.StatusOK {
			continue
		}
		if verdict, reason := file.Verdict(u.Target(), time.Now()); verdict != robots.Allow {
			kept = false
			s.advise("OB-111", "", "crawlers may not read %s, so no public index lists what it holds: %s", clip(u.Target()), clip(reason))
		}
	}
	if kept {
		s.pass("OB-111", "crawlers may read the documents here (robots.txt)")
	}
}

// each does n things, some at a time.
func (w *walk) each(n int, do func(i int)) {
	places := make(chan struct{}, callsAtOnce)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			do(i)
		})
	}
	wg.Wait()
}
