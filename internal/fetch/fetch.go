// Package fetch reads one document: a GET, conditional when there is a stored
// copy, redirects followed by hand, each hop checked.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// ErrNoLocation is a redirect that does not say where to.
var ErrNoLocation = errors.New("redirect without a Location")

// Validators are those of a stored copy. They are sent only to FinalURL (C2).
type Validators struct {
	FinalURL     string
	ETag         string // byte for byte as it came
	LastModified string
}

// Request is one document to read.
type Request struct {
	URL        weburl.URL
	Accept     string // media type asked for first; "" asks for anything
	Validators Validators
	MaxBytes   int64         // 0: the client's limit
	Timeout    time.Duration // from before DNS to the last octet, hops included; 0: 10 s
	MaxHops    int           // redirects; 0: 5

	// Truncate keeps the first MaxBytes of a longer body, with Document.Truncated
	// set, instead of refusing it (robots.txt, R4).
	Truncate bool
	// Before is called before each request, redirect targets included, with the
	// hop number from 0. An error ends the fetch and is returned wrapped. It is
	// where a crawler asks robots.txt and waits for its turn; waiting there does
	// not count against Timeout (G8).
	Before func(ctx context.Context, u weburl.URL, hop int) error
	// Large is asked before more than publicnet.SmallBody octets of a body are
	// kept; see publicnet.Limits. Nil asks nobody.
	Large func(ctx context.Context, size int64) error
	// After is called with the time that each answer took, body included, or
	// until its headers for a redirect. A request that failed has status 0 and
	// no headers, or those that came before the failure.
	After func(u weburl.URL, took time.Duration, status int, h http.Header)
}

// Hop is one redirect that was followed.
type Hop struct {
	URL      string `json:"url"` // what was asked
	Status   int    `json:"status"`
	Location string `json:"location"` // where it points, normal form
}

// Document is an answer, whatever its status.
type Document struct {
	URL         string // as asked, normal form
	FinalURL    string
	Hops        []Hop
	Status      int
	Header      http.Header
	Body        []byte // decoded; nil after a 304
	Truncated   bool
	NotModified bool          // 304 to a conditional request
	Hash        string        // hex SHA-256 of Body; empty when NotModified
	FetchedAt   time.Time     // when the last octet was here
	Took        time.Duration // all hops, without waiting in Before and for places
}

// ContentType is the media type of the answer in lower case, without
// parameters; empty when there is none.
func (d *Document) ContentType() string {
	value := d.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(value); err == nil || errors.Is(err, mime.ErrInvalidMediaParameter) {
		return kind
	}
	kind, _, _ := strings.Cut(value, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// Get fetches one document with a client of publicnet, which keeps the limits.
// An HTTP status is no error.
//
// Errors wrap the sentinels of publicnet, ErrNoLocation, a *weburl.Error (a
// redirect to an address that cannot be used; the message names the hop), what
// Before returned, or the error of ctx. A 304 to a request without validators
// is publicnet.ErrBadAnswer; whether to ask once more is the caller's decision.
func Get(ctx context.Context, c *http.Client, r *Request) (*Document, error) {
	if r.URL.IsZero() {
		return nil, errors.New("fetch: the request has no URL")
	}
	client := *c
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = publicnet.DefaultTimeout
	}
	maxHops := r.MaxHops
	if maxHops <= 0 {
		maxHops = publicnet.DefaultMaxRedirects
	}
	limited, spent := publicnet.WithLimits(ctx, publicnet.Limits{MaxBytes: r.MaxBytes, Timeout: timeout, Truncate: r.Truncate, Large: r.Large})

	doc := &Document{URL: r.URL.String()}
	for u, hop := r.URL, 0; ; hop++ {
		if r.Before != nil {
			if err := r.Before(ctx, u, hop); err != nil {
				return nil, atHop(u, hop, err)
			}
		}
		began := spent()
		target, err := doc.ask(limited, &client, r, u)
		if r.After != nil {
			r.After(u, spent()-began, doc.Status, doc.Header)
		}
		if err != nil {
			return nil, atHop(u, hop, err)
		}
		if target.IsZero() {
			doc.FinalURL = u.String()
			doc.FetchedAt = time.Now()
			doc.Took = spent()
			return doc, nil
		}
		if hop == maxHops {
			return nil, atHop(u, hop, fmt.Errorf("%w: more than %d, the last one to %s", publicnet.ErrTooManyRedirects, maxHops, target))
		}
		doc.Hops = append(doc.Hops, Hop{URL: u.String(), Status: doc.Status, Location: target.String()})
		u = target
	}
}

// atHop names the request that failed. The first one is the caller's own.
func atHop(u weburl.URL, hop int, err error) error {
	if hop == 0 {
		return fmt.Errorf("fetch %s: %w", u, err)
	}
	return fmt.Errorf("hop %d: %s: %w", hop, u, err)
}

// ask makes one request and stores the answer in d. For a redirect it gives the
// target.
func (d *Document) ask(ctx context.Context, client *http.Client, r *Request, u weburl.URL) (target weburl.URL, err error) {
	d.Status, d.Header = 0, nil
	req := newRequest(ctx, r, u)
	resp, err := client.Do(req)
	if err != nil {
		// The address is named by atHop.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return weburl.URL{}, err
	}
	defer resp.Body.Close()
	d.Status, d.Header = resp.StatusCode, resp.Header

	if isRedirect(resp.StatusCode) {
		location := strings.TrimSpace(resp.Header.Get("Location"))
		if location == "" {
			return weburl.URL{}, fmt.Errorf("%w: status %d", ErrNoLocation, resp.StatusCode)
		}
		target, err := u.Resolve(location)
		if err != nil {
			return weburl.URL{}, fmt.Errorf("follow redirect to %.200q: %w", location, err)
		}
		if 0 < resp.ContentLength && resp.ContentLength <= 2<<10 {
			// So short a body is read for the sake of the connection.
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		return target, nil
	}
	if resp.StatusCode == http.StatusNotModified {
		d.NotModified = true
		return weburl.URL{}, nil
	}
	body, err := readAll(resp)
	if err != nil {
		if !r.Truncate || !errors.Is(err, publicnet.ErrTooLarge) {
			return weburl.URL{}, fmt.Errorf("read body: %w", err)
		}
		d.Truncated = true
	}
	sum := sha256.Sum256(body)
	d.Body, d.Hash = body, hex.EncodeToString(sum[:])
	return weburl.URL{}, nil
}

// readAll reads a body into no more memory than it takes. The client keeps its
// limit; what a server announces is believed only as far as it comes true, or
// as Limits.Large, which the first read asks, has let it pass.
func readAll(resp *http.Response) ([]byte, error) {
	const start = 2 << 10
	size := start
	if n := resp.ContentLength; n >= 0 {
		size = int(min(n, publicnet.SmallBody)) + 1 // one more for the end
	}
	b := make([]byte, 0, size)
	for {
		n, err := resp.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return fitted(b), nil
		case err != nil:
			return fitted(b), err
		case len(b) < cap(b):
			continue
		}
		size = 2 * cap(b)
		if n := resp.ContentLength; n >= int64(len(b)) && n < publicnet.DefaultMaxBytes {
			size = int(n) + 1
		} else if len(b) < publicnet.DefaultMaxBytes {
			size = min(size, publicnet.DefaultMaxBytes+1)
		}
		b = append(make([]byte, 0, size), b...)
	}
}

// fitted gives back what a buffer has too much.
func fitted(b []byte) []byte {
	if cap(b)-len(b) <= len(b)/8+64 {
		return b
	}
	return append(make([]byte, 0, len(b)), b...)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func newRequest(ctx context.Context, r *Request, u weburl.URL) *http.Request {
	req := (&http.Request{
		Method: http.MethodGet,
		URL:    requestURL(u),
		Host:   u.Authority(),
		Header: make(http.Header),
	}).WithContext(ctx)
	req.Header.Set("Accept", accept(r.Accept))
	if v := r.Validators; u.String() == v.FinalURL {
		// The map is written as it is: tags go back byte for byte.
		if v.ETag != "" {
			req.Header["If-None-Match"] = []string{v.ETag}
			if strings.HasSuffix(v.ETag, `-gzip"`) {
				// Apache marks the tags of compressed answers and then never finds
				// them again. The plain answer has a tag that works (C9).
				req.Header.Set("Accept-Encoding", "identity")
			}
		}
		if v.LastModified != "" {
			req.Header["If-Modified-Since"] = []string{v.LastModified}
		}
	}
	return req
}

// accept puts the exact type first (documents R4). Servers that know only
// general types find theirs after it.
func accept(exact string) string {
	switch exact {
	case "":
		return "*/*"
	case "text/html":
		return "text/html, */*;q=0.1"
	case "text/plain":
		return "text/plain, */*;q=0.1"
	}
	return exact + ", application/json;q=0.9, */*;q=0.1"
}

// requestURL gives a url.URL whose request line carries the target byte for
// byte. net/url rewrites some octets ("{" for one) unless the target is opaque
// to it.
func requestURL(u weburl.URL) *url.URL {
	out := &url.URL{Scheme: "https", Host: u.Authority()}
	target := u.Target()
	if plain, err := url.Parse(u.String()); err == nil && plain.RequestURI() == target {
		return plain
	}
	if strings.HasPrefix(target, "//") {
		// An opaque part that begins so would be taken for an authority; the
		// absolute form of a request (RFC 9112 section 3.2.2) is not.
		target = "//" + u.Authority() + target
	}
	out.Opaque = target
	return out
}
