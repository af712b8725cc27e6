package api

import (
	"context"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// submission is the body of POST /v1/submissions.
type submission struct {
	URL string `json:"url" minLength:"1" maxLength:"8192" doc:"A domain, or the https address of an app page, a catalog or a card" example:"https://app.example.com/"`
}

// accepted is the one answer to a submission.
type accepted struct {
	Status  string `json:"status" enum:"accepted"`
	Message string `json:"message"`
}

var acceptance = accepted{
	Status:  "accepted",
	Message: "The crawler will look at this address. An app is listed once its publisher's own catalog lists it and robots.txt allows it.",
}

// readSubmission reads the body of a submission. A client that names no type
// is taken to send JSON.
func readSubmission(contentType string, body []byte) (string, *problem) {
	if kind, _, err := mime.ParseMediaType(contentType); contentType != "" && (err != nil || kind != jsonType) {
		return "", newProblem(http.StatusUnsupportedMediaType, "a submission is application/json; the form of the search page is at /submit")
	}
	var s submission
	if err := strictjson.Unmarshal(body, &s); err != nil {
		p := newProblem(http.StatusBadRequest, `body must be {"url": "..."}: `+err.Error())
		p.Faults = []fault{{"body", p.Detail}}
		return "", p
	}
	return s.URL, nil
}

// submit makes an address a lead. It asks nobody: whatever the address is,
// reachable or not, public or not, the answer is the same (OB-143). Only an
// address that is none is refused.
func (h *handler) submit(ctx context.Context, address string) *problem {
	address = strings.TrimSpace(address)
	switch {
	case address == "":
		return badParameter("url", "is missing: write a domain or an https address")
	case len(address) > weburl.MaxLen:
		return badParameter("url", fmt.Sprintf("must have at most %d characters", weburl.MaxLen))
	}
	doc := index.NewDoc{Class: index.ClassUser, Ping: true}
	if host, ok := weburl.Domain(address); ok {
		// A bare domain stands for its own catalog (OB-38).
		doc.URL, doc.Kind = "https://"+host+catalog.WellKnownPath, index.CatalogDoc
	} else {
		if !strings.Contains(address, "://") {
			address = "https://" + address
		}
		u, err := weburl.Parse(address)
		if err != nil {
			if raw, bad := url.Parse(address); bad == nil && raw.Scheme == "https" && raw.Host != "" && raw.User == nil {
				// A host that no public app has, an IP address for instance.
				return nil
			}
			return badParameter("url", "cannot be used: "+err.Error())
		}
		doc.URL = u.String()
	}
	u, err := weburl.Parse(doc.URL)
	if err != nil {
		return nil
	}
	now := h.opts.Now()
	if _, wait := h.targets.take(u.Authority(), now); wait > 0 {
		return later(http.StatusTooManyRequests, wait, "this address's host was submitted often just now; the crawler has it on its list")
	}
	ctx, cancel := storeTime(ctx)
	defer cancel()
	capped, err := h.opts.Store.AddSource(ctx, now, doc)
	if err != nil {
		h.log.Error("index API cannot store a submission", slog.Any("error", err))
		return later(http.StatusServiceUnavailable, 10*time.Second, "the index cannot take submissions at present")
	}
	if len(capped) > 0 {
		h.log.Info("a submission was turned away by the limits of the frontier")
	}
	return nil
}
