package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/robots"
)

// elsewhere is a redirect to another origin, which only that host's own visit
// may follow.
type elsewhere struct{ url weburl.URL }

func (e *elsewhere) Error() string { return "it is redirected to " + e.url.String() }

// refusal is robots.txt forbidding an address, or not telling.
type refusal struct {
	url     string
	verdict robots.Verdict
	reason  string
}

func (e *refusal) Error() string { return e.url + ": " + e.reason }

// hop is one answer on the way to a document.
type hop struct {
	url    string
	status int
}

// get makes the requests for one document, one at a time, each with its gap
// (P1) and, unless it is robots.txt itself, each under robots.txt (R7). steps
// gains a line an answer; hops are the answers in order.
//
// Errors: errLater, *elsewhere, *refusal, what fetch.Get gives.
func (v *visit) get(ctx context.Context, steps *[]index.Step, r *fetch.Request, robotsFile bool) (d *fetch.Document, hops []hop, err error) {
	var held string // the origin that is being asked
	var began time.Time
	r.Before = func(ctx context.Context, u weburl.URL, n int) error {
		origin := u.Authority()
		if !robotsFile {
			if origin != v.host {
				return &elsewhere{u}
			}
			if n > 0 {
				if err := v.allowed(ctx, u, steps); err != nil {
					return err
				}
			}
		}
		startBy := v.startBy
		if origin != v.host { // a hop of robots.txt
			if err := v.meet(ctx, origin); err != nil {
				return err
			}
			if soon := time.Now().Add(crowdWait); soon.Before(startBy) {
				startBy = soon
			}
		}
		if err := v.c.origins.take(ctx, origin, startBy); err != nil {
			v.comeBack(v.c.origins.opens(origin))
			if origin != v.host {
				now := time.Now()
				v.comeBack(now.Add(v.c.spread(crowdDelay, v.host, now)))
			}
			return err
		}
		held, began = origin, time.Now()
		return nil
	}
	r.After = func(u weburl.URL, took time.Duration, status int, h http.Header) {
		v.answered(held, took, status, h)
		held = ""
		if status == 0 { // no answer: the error tells
			return
		}
		v.c.count.fetched(ctx, status, took)
		hops = append(hops, hop{u.String(), status})
		step := index.Step{At: time.Now(), What: "fetch", URL: u.String(), Status: status, Took: took, Result: strconv.Itoa(status)}
		if to := h.Get("Location"); to != "" && status/100 == 3 {
			step.Detail = "to " + short(to)
		}
		*steps = append(*steps, step)
	}
	defer func() {
		if held != "" { // no answer, or a panic
			v.answered(held, time.Since(began), 0, nil)
		}
	}()
	var room int64 // made for the body
	r.Large = func(ctx context.Context, n int64) error {
		err := v.grow(ctx, n)
		if err == nil {
			room += n
		}
		return err
	}
	d, err = fetch.Get(ctx, v.client, r)
	if room > 0 {
		need := int64(0)
		if err == nil {
			need = min(int64(len(d.Body)), room)
		}
		v.shrink(room - need)
	}
	if err != nil && !handBack(ctx, err) && !ours(err) {
		v.c.count.fetched(ctx, 0, 0)
		e := discovery.FetchError(r.URL.String(), err)
		*steps = append(*steps, index.Step{At: time.Now(), What: "fetch", URL: e.URL, Result: string(e.Kind), Detail: short(e.Detail)})
	}
	return d, hops, err
}

// ours reports whether a fetch was ended by our own rules.
func ours(err error) bool {
	if _, ok := errors.AsType[*elsewhere](err); ok {
		return true
	}
	_, ok := errors.AsType[*refusal](err)
	return ok
}

// handBack reports whether an error says nothing about the document: there was
// no time, or the crawler is being stopped.
func handBack(ctx context.Context, err error) bool {
	return errors.Is(err, errLater) || ctx.Err() != nil
}

// comeBack keeps the host from being leased before t.
func (v *visit) comeBack(t time.Time) {
	if t.After(v.next) {
		v.next = t
	}
}

// answered ends a turn at an origin and keeps its gap.
func (v *visit) answered(origin string, took time.Duration, status int, h http.Header) {
	now := time.Now()
	var delay time.Duration
	if origin == v.host {
		delay = v.delay
	} else {
		delay = v.hopDelay[origin]
	}
	gap := gapAfter(took, delay)
	next := now.Add(gap)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		wait := retryAfter(h, now)
		if wait == 0 && status == http.StatusTooManyRequests {
			wait = tooManyDelay
		}
		next = now.Add(max(gap, wait))
	}
	v.c.origins.done(origin, next)
	if origin == v.host {
		v.out.Gap = gap
		v.next = next
	}
}

func crawlDelay(f *robots.File) time.Duration {
	if f.State != robots.Found || f.Rules == nil {
		return 0
	}
	return f.Rules.CrawlDelay()
}

// meet learns the pace of another origin before a hop of robots.txt, the only
// request that goes there without its lease (P4): its gap, and until when it
// asked to be left alone. The error is the store's.
func (v *visit) meet(ctx context.Context, origin string) error {
	h, err := v.c.store.Host(ctx, origin)
	if errors.Is(err, index.ErrNotFound) {
		return nil
	}
	if err != nil {
		v.err = fmt.Errorf("look up host: %w", err)
		return v.err
	}
	if v.hopDelay == nil {
		v.hopDelay = make(map[string]time.Duration)
	}
	v.hopDelay[origin] = max(h.Gap, crawlDelay(&h.Robots))
	v.c.origins.closeUntil(origin, h.NotBefore)
	return nil
}

// allowed asks robots.txt. The error is *refusal, errLater, or the store's.
func (v *visit) allowed(ctx context.Context, u weburl.URL, steps *[]index.Step) error {
	var verdict robots.Verdict
	var reason string
	err := v.ruled(ctx, func(f *robots.File) { verdict, reason = f.Verdict(u.Target(), time.Now()) })
	if err != nil {
		return err
	}
	*steps = append(*steps, index.Step{At: time.Now(), What: "robots", URL: u.String(), Result: string(verdict), Detail: reason})
	if verdict != robots.Allow {
		return &refusal{u.String(), verdict, reason}
	}
	return nil
}

// readRobots reads robots.txt when it is due. Its redirects are followed
// wherever they lead, past the guard but not past robots.txt (R7). The error
// is one of handBack.
func (v *visit) readRobots(ctx context.Context) error {
	now := time.Now()
	if !v.robots.Due(now, robotsRetry) {
		return nil
	}
	u, err := weburl.Parse("https://" + v.host + "/robots.txt")
	if err != nil {
		return fmt.Errorf("make the address of robots.txt: %w", err)
	}
	r := &fetch.Request{URL: u, Accept: "text/plain", MaxBytes: robots.MaxBytes, Truncate: true}
	if v.robots.State == robots.Found {
		r.Validators = fetch.Validators{FinalURL: v.robots.FinalURL, ETag: v.robots.ETag, LastModified: v.robots.LastModified}
	}
	d, _, err := v.get(ctx, &v.robot, r, true)
	if err != nil && (handBack(ctx, err) || v.err != nil) {
		return err
	}
	for i := range v.robot {
		v.robot[i].What = "robots"
	}
	var a robots.Answer
	switch {
	case errors.Is(err, publicnet.ErrTooManyRedirects):
		a.Err = robots.ErrTooManyHops
	case errors.Is(err, fetch.ErrNoLocation):
		a.Err = robots.ErrNoLocation
	case err != nil:
		a.Err = discovery.FetchError(u.String(), err)
		v.failed(err)
	default:
		v.out.Fails = 0
		a = robots.Answer{
			Status: d.Status, Body: d.Body, Truncated: d.Truncated, FinalURL: d.FinalURL,
			ETag: d.Header.Get("ETag"), LastModified: d.Header.Get("Last-Modified"),
		}
	}
	var next robots.File
	err = v.desk(ctx, int64(len(a.Body)), func() error {
		return v.ruled(ctx, func(f *robots.File) { next = f.Next(a, time.Now()) })
	})
	if err != nil {
		return err
	}
	v.obey(next)
	// The new file may ask for a longer gap than the one before its own request.
	v.out.Gap = max(v.out.Gap, v.delay)
	v.comeBack(time.Now().Add(v.out.Gap))
	v.c.origins.closeUntil(v.host, v.next)
	return nil
}

// failed notes that a request got no answer. A host without name or valid
// certificate, or one that gave none twice, is not asked again on this visit.
func (v *visit) failed(err error) {
	switch {
	case errors.Is(err, publicnet.ErrDNS), errors.Is(err, publicnet.ErrTLS):
	case errors.Is(err, publicnet.ErrConnect), errors.Is(err, publicnet.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		v.silent++
		if v.silent < 2 {
			return
		}
	default:
		return
	}
	if v.down == nil {
		v.out.Fails++
	}
	v.down = err
}

// short cuts what a stranger wrote to a length fit for a trace.
func short(s string) string { return cut(s, 300) }

// cut shortens s to about n octets.
func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}
