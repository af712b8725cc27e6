package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/openbot-build/openbot-go/index/search"
)

// recorder sees the status of an answer, and fills in headers that every
// answer has.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
		if h := w.Header(); h.Get("Cache-Control") == "" {
			h.Set("Cache-Control", cacheFor(status))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// outer wraps everything: headers of every answer, and measures. routes
// tells the pattern of a request.
func (h *handler) outer(routes *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		rec := &recorder{ResponseWriter: w}
		_, pattern := routes.Handler(r)
		head := rec.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Access-Control-Allow-Origin", "*") // IX-61
		head.Set("Access-Control-Expose-Headers", "ETag, Link, Retry-After")
		defer func() { h.metrics.answered(r.Context(), pattern, rec.status, time.Since(begin)) }()
		if r.Method == http.MethodOptions {
			if allow := methods(routes, r); len(allow) > 0 {
				preflight(rec, allow)
			} else {
				h.fail(rec, r, newProblem(http.StatusNotFound, nothingHere))
			}
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// methods lists what a path answers to, GET, HEAD and POST.
func methods(routes *http.ServeMux, r *http.Request) []string {
	var out []string
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		c := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := routes.Handler(c); pattern != "" {
			out = append(out, m)
		}
	}
	return out
}

const nothingHere = "there is nothing at this address; /openapi.json describes what there is"

func preflight(w http.ResponseWriter, methods []string) {
	allow := strings.Join(append(methods, http.MethodOptions), ", ")
	w.Header().Set("Access-Control-Allow-Methods", allow)
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-None-Match")
	w.Header().Set("Access-Control-Max-Age", "86400")
	w.Header().Set("Allow", allow)
	w.Header().Set("Cache-Control", "public, max-age=86400")
	w.WriteHeader(http.StatusNoContent)
}

// routed answers what no route does, counts clients, and hands on.
func (h *handler) routed(routes *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := routes.Handler(r); pattern == "" {
			if allow := methods(routes, r); len(allow) > 0 {
				w.Header().Set("Allow", strings.Join(append(allow, http.MethodOptions), ", "))
				h.fail(w, r, newProblem(http.StatusMethodNotAllowed, "this address does not take "+clean(r.Method)))
				return
			}
			h.fail(w, r, newProblem(http.StatusNotFound, nothingHere))
			return
		}
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			h.fail(w, r, newProblem(http.StatusBadRequest, "the query string is malformed: a % needs two hexadecimal digits, and ; parts nothing"))
			return
		}
		for name, values := range query {
			if len(values) > 1 && (!isPage(r) || name == "q" || name == "cursor") {
				h.fail(w, r, badParameter(clean(name), "must stand once in the query string"))
				return
			}
		}
		limiter := h.limiterFor(r, query)
		var taken *rate.Reservation
		now := h.opts.Now()
		if limiter != nil {
			var wait time.Duration
			if taken, wait = limiter.take(client(r, h.opts.TrustedProxies), now); wait > 0 {
				h.fail(w, r, later(http.StatusTooManyRequests, wait, "too many requests from your network; Retry-After says when to come again"))
				return
			}
		}
		rec := &recorder{ResponseWriter: w}
		h.guarded(routes, rec, r)
		if rec.status == http.StatusNotModified && taken != nil {
			taken.CancelAt(now) // 304 is free
		}
	})
}

// guarded runs a request so that a panic costs it alone (IX-41).
func (h *handler) guarded(routes http.Handler, w *recorder, r *http.Request) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
			h.log.Error("index API: panic", slog.String("cause", fmt.Sprint(cause)), slog.String("stack", string(debug.Stack())))
		}
		if w.status != 0 {
			// A part of the answer is out: only the end of the connection tells.
			panic(http.ErrAbortHandler)
		}
		h.fail(w, r, newProblem(http.StatusInternalServerError, ourFault))
	}()
	routes.ServeHTTP(w, r)
}

// limiterFor gives the limiter of a request; nil: none. Health is never
// limited.
func (h *handler) limiterFor(r *http.Request, query url.Values) *limiter {
	switch path := r.URL.Path; {
	case path == "/healthz" || path == "/v1/healthz" || path == "/readyz":
		return nil
	case r.Method == http.MethodPost:
		return h.clients.submit
	case (path == "/" || path == "/v1/apps") && h.isSearch(query):
		return h.clients.search
	}
	return h.clients.read
}

// isSearch reports whether a list is a search, which costs more than a page of
// the listing. A cursor knows what it goes on with.
func (h *handler) isSearch(query url.Values) bool {
	if text := query.Get("cursor"); text != "" {
		cur, err := h.cursors.decode(text)
		return err != nil || cur.Query != ""
	}
	return search.CleanQuery(query.Get("q")) != ""
}

// fail answers with a problem, as JSON or as a page.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, p *problem) {
	if isPage(r) {
		h.pageOf(w, r).problem(w, p)
		return
	}
	p.write(w)
}
