package api

import (
	"context"
	"log/slog"
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

func readSubmission(body []byte) (string, *problem) {
	var s submission
	if err := strictjson.Unmarshal(body, &s); err != nil {
		p := newProblem(http.StatusBadRequest, `the body is not {"url": "..."}: `+err.Error())
		p.Faults = []fault{{"/", err.Error()}}
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
		return badParameter("url", "is missing; write a domain or an https address")
	case len(address) > weburl.MaxLen:
		return badParameter("url", "is too long")
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
			return badParameter("url", err.Error())
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
