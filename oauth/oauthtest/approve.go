package oauthtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// Approve plays the user: it opens an authorization URL with client, signs in as
// user, agrees, and gives the redirect back to the host, which it does not
// follow. The redirect may tell an error, as the server found one. A request
// that gets no redirect, with an unknown client for instance, is an error.
//
// client nil reaches the server without any network. Another one must let
// cookies through (clients of publicnet do not).
func (s *Server) Approve(ctx context.Context, client *http.Client, url, user string) (redirect string, err error) {
	return s.answer(ctx, client, url, user, "agree")
}

// Refuse plays a user who does not agree: see Approve.
func (s *Server) Refuse(ctx context.Context, client *http.Client, url string) (redirect string, err error) {
	return s.answer(ctx, client, url, "", "refuse")
}

func (s *Server) answer(ctx context.Context, client *http.Client, address, user, answer string) (string, error) {
	browser := &http.Client{Transport: inside{s}}
	if client != nil {
		c := *client
		browser = &c
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	browser.Jar = jar
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	at, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("open authorization URL: %w", err)
	}
	redirect, form, err := visit(ctx, browser, http.MethodGet, at, nil)
	if err != nil || redirect != "" {
		return redirect, err
	}
	action, err := at.Parse(form.action)
	if err != nil {
		return "", fmt.Errorf("open authorization URL: %w", err)
	}
	form.fields.Set("user", user)
	form.fields.Set("answer", answer)
	redirect, _, err = visit(ctx, browser, http.MethodPost, action, form.fields)
	if err == nil && redirect == "" {
		err = errors.New("answer consent page: the page was shown again")
	}
	return redirect, err
}

// visit gives where a page redirects to, or its form.
func visit(ctx context.Context, browser *http.Client, method string, at *url.URL, fields url.Values) (string, *form, error) {
	what := "open authorization URL"
	if method == http.MethodPost {
		what = "answer consent page"
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), strings.NewReader(fields.Encode()))
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", what, err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", at.Scheme+"://"+at.Host)
	}
	resp, err := browser.Do(req)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", what, err)
	}
	defer resp.Body.Close()
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		return to, nil, nil
	}
	f, err := readForm(io.LimitReader(resp.Body, maxForm))
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("%s: %w", what, err)
	case f.fault != "":
		return "", nil, fmt.Errorf("%s: the server says: %s", what, f.fault)
	case resp.StatusCode != http.StatusOK || f.action == "":
		return "", nil, fmt.Errorf("%s: status %d and no consent page", what, resp.StatusCode)
	}
	return "", f, nil
}

// form is the consent page as a program sees it.
type form struct {
	action string
	fields url.Values
	fault  string
}

func readForm(r io.Reader) (*form, error) {
	doc, err := html.Parse(r)
	if err != nil {
		return nil, err
	}
	f := &form{fields: url.Values{}}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		attr := map[string]string{}
		for _, a := range n.Attr {
			attr[a.Key] = a.Val
		}
		switch {
		case n.Data == "form":
			f.action = attr["action"]
		case n.Data == "input" && attr["type"] == "hidden":
			f.fields.Set(attr["name"], attr["value"])
		case (attr["id"] == "fault" || attr["id"] == "complaint") && n.FirstChild != nil:
			f.fault = n.FirstChild.Data
		}
	}
	return f, nil
}

// inside is a way to a server without a network.
type inside struct{ s *Server }

func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.Host, in.RequestURI = r.URL.Host, r.URL.RequestURI()
	rec := httptest.NewRecorder()
	i.s.ServeHTTP(rec, in)
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}
