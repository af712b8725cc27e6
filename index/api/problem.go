package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
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
	Name   string `json:"name" doc:"Name of the parameter, or of the body's member; body: the body as a whole"`
	Reason string `json:"reason" doc:"A sentence for people: what is wrong with it"`
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

// badParameter is a 400 that names one parameter. The name and the rule, for
// instance "must be UTF-8", are a sentence.
func badParameter(name, rule string) *problem {
	p := newProblem(http.StatusBadRequest, name+" "+rule)
	p.Faults = []fault{{name, p.Detail}}
	return p
}

const bodyTooLarge = "a body has at most 16 KiB"

// unknownParameter is the rule that a misspelt parameter breaks.
const unknownParameter = "is no parameter of this address"

// mustBe holds the rules of the parameters that the description states, too.
var mustBe = map[string]string{
	"q":      "must have at most 200 characters",
	"limit":  "must be a whole number between 1 and 100",
	"cursor": "must be a nextCursor that this index gave, of at most 2048 characters; begin the search anew",
	"id":     "must be 64 hexadecimal digits in lower case; /v1/apps/by-card?url= finds an app by the address of its card",
	"url":    "must be the address of a card, for instance https://app.example.com/card.json",
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
		return newProblem(status, bodyTooLarge)
	case status == http.StatusInternalServerError:
		// What went wrong inside stays inside.
		return newProblem(status, ourFault)
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
		rule, ok := mustBe[name]
		switch {
		case strings.HasPrefix(d.Message, "unknown"):
			rule = unknownParameter
		case !ok:
			rule = "cannot be used: " + d.Message
		}
		sentence := clean(name) + " " + rule
		if slices.Contains(sentences, sentence) {
			continue // one that breaks its rule in two ways
		}
		p.Faults = append(p.Faults, fault{clean(name), sentence})
		sentences = append(sentences, sentence)
	}
	if len(sentences) > 0 {
		p.Detail = strings.Join(sentences, "; ")
	}
	return p
}
