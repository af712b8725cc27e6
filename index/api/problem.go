package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

const problemType = "application/problem+json"

// problem is an error answer (RFC 9457). Its type is about:blank, left out: the
// status says what kind it is, and detail what to do.
type problem struct {
	Title  string     `json:"title" doc:"The HTTP status in words"`
	Status int        `json:"status" doc:"The HTTP status"`
	Detail string     `json:"detail,omitempty" doc:"A sentence for people: what is wrong and what to do about it"`
	Faults []fault    `json:"faults,omitempty" nullable:"false" doc:"Each parameter or member that is at fault"`
	Gone   *tombstone `json:"removed,omitempty" doc:"Of an app that is not in the index any more"`

	retry time.Duration
}

// fault names one parameter.
type fault struct {
	Name   string `json:"name" doc:"Name of the parameter, or JSON Pointer into the body"`
	Reason string `json:"reason" doc:"What is wrong with it"`
}

// tombstone is what is left of an entry while its tombstone stays.
type tombstone struct {
	CardURL string    `json:"cardUrl"`
	Name    string    `json:"name,omitempty"`
	Version string    `json:"version,omitempty"`
	State   string    `json:"state" doc:"removed, hidden (stale for 30 days, may come back) or blocked"`
	Reason  string    `json:"reason" doc:"delisted, noindex, robots_disallow, card_gone, card_invalid, stale_90_days, card_unreachable, unconfirmed or blocked"`
	At      time.Time `json:"at"`
}

func newProblem(status int, detail string) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

// badParameter is a 400 that names one parameter.
func badParameter(name, reason string) *problem {
	p := newProblem(http.StatusBadRequest, name+": "+reason)
	p.Faults = []fault{{name, reason}}
	return p
}

// later is an answer to a client that should come again.
func later(status int, wait time.Duration, detail string) *problem {
	p := newProblem(status, detail)
	p.retry = max(wait, time.Second)
	return p
}

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return problemType }

// GetHeaders gives the headers of the answer.
func (p *problem) GetHeaders() http.Header {
	h := http.Header{"Cache-Control": {cacheFor(p.Status)}}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retry+time.Second-1)/time.Second)))
	}
	return h
}

// cacheFor is how long an error answer may be kept (IX-62).
func cacheFor(status int) string {
	if status == http.StatusNotFound || status == http.StatusGone {
		return "public, max-age=10"
	}
	return "no-store"
}

// write answers a request outside huma.
func (p *problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	// A client that is gone cannot be told anything.
	_ = json.NewEncoder(w).Encode(p)
}

// ours marks the operations of this package.
const ours = "openbot-problem"

// errorShape makes huma's own errors, those of validation above all, problems
// of ours: huma asks one package variable for them. It is set once, for the
// operations of this package alone; other users of huma in the program see the
// function that was there before.
var errorShape = sync.OnceFunc(func() {
	before := huma.NewErrorWithContext
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		if ctx == nil || ctx.Operation() == nil || ctx.Operation().Metadata[ours] == nil {
			return before(ctx, status, msg, errs...)
		}
		return fromHuma(status, msg, errs)
	}
})

func fromHuma(status int, msg string, errs []error) *problem {
	switch {
	case status == http.StatusUnprocessableEntity:
		status = http.StatusBadRequest
	case status == http.StatusRequestEntityTooLarge:
		return newProblem(status, "the body has at most 16 KiB")
	case status == http.StatusInternalServerError:
		// What went wrong inside stays inside.
		return newProblem(status, "the index could not answer; the fault is on its side")
	}
	p := newProblem(status, msg)
	var sentences []string
	for _, err := range errs {
		var d *huma.ErrorDetail
		if !errors.As(err, &d) {
			continue
		}
		_, name, ok := strings.Cut(d.Location, ".")
		if !ok {
			name = d.Location
		}
		p.Faults = append(p.Faults, fault{name, d.Message})
		sentences = append(sentences, name+": "+d.Message)
	}
	if len(sentences) > 0 {
		p.Detail = strings.Join(sentences, "; ")
	}
	return p
}
