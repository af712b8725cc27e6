package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// The suite's servers for clients speak plain HTTP on loopback, which the
// product reaches under no circumstances. So they get other names: a client
// here lives in an Internet where http://localhost:PORT is called
// https://pPORT.mock.example.com, and the product's code runs as it is, with
// publicnet and its own demand for https.
//
// A translator stands between the two. Every address of one form becomes the
// other in all that passes, in paths, queries, headers and bodies, and back
// again on the way to the suite, which sees its own names only. The two forms
// stand for each other one to one, so two strings are equal octet for octet
// after the translation exactly if they were before it. What would break that,
// a name of the other side that nobody has translated, ends the exchange.

// mockDomain is where the suite's servers appear to be.
const mockDomain = "mock.example.com"

var (
	// Either form as it stands in text, and as it stands in a query or a form.
	suiteName  = regexp.MustCompile(`http://localhost:([1-9][0-9]{0,4})|http%3A%2F%2Flocalhost%3A([1-9][0-9]{0,4})`)
	clientName = regexp.MustCompile(`https://p([1-9][0-9]{0,4})\.mock\.example\.com|https%3A%2F%2Fp([1-9][0-9]{0,4})\.mock\.example\.com`)
)

// errForeignName ends an exchange in which a side used a name that only the
// translator can have given to the other side.
var errForeignName = errors.New("a name of the other side of the translator")

// translator is the Internet of one client of the suite.
type translator struct {
	net   *fakenet.Net
	proxy http.Handler
	plain *http.Transport // to the suite

	mu    sync.Mutex
	known map[string]bool // hosts that the client has heard of
}

func newTranslator() *translator {
	t := &translator{net: fakenet.New(), known: map[string]bool{}, plain: &http.Transport{DisableCompression: true}}
	t.proxy = &httputil.ReverseProxy{
		Rewrite:        t.request,
		ModifyResponse: t.answer,
		Transport:      t.plain,
		FlushInterval:  -1,                         // events come one by one
		ErrorLog:       log.New(io.Discard, "", 0), // the exchange ends, which the client sees
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return t
}

// network is the product's way into it.
func (t *translator) network() (*publicnet.Network, error) {
	return publicnet.New(&publicnet.Options{UserAgent: "openbot-conformance/1.0", Below: t.net.Below()})
}

// close ends all connections.
func (t *translator) close() {
	t.net.Close()
	t.plain.CloseIdleConnections()
}

// toClient translates what the suite says. Each server that it names is there
// for the client from then on.
func (t *translator) toClient(s string) (string, error) {
	if strings.Contains(s, mockDomain) {
		return "", errForeignName
	}
	return suiteName.ReplaceAllStringFunc(s, func(found string) string {
		m := suiteName.FindStringSubmatch(found)
		host := "p" + m[1] + m[2] + "." + mockDomain
		t.meet(host)
		if m[1] != "" {
			return "https://" + host
		}
		return "https%3A%2F%2F" + host
	}), nil
}

// toSuite translates what the client says.
func toSuite(s string) (string, error) {
	if suiteName.MatchString(s) {
		return "", errForeignName
	}
	return clientName.ReplaceAllStringFunc(s, func(found string) string {
		m := clientName.FindStringSubmatch(found)
		if m[1] != "" {
			return "http://localhost:" + m[1]
		}
		return "http%3A%2F%2Flocalhost%3A" + m[2]
	}), nil
}

func (t *translator) meet(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known[host] {
		t.known[host] = true
		t.net.Handle(host, t.proxy)
	}
}

// request is the way to the suite.
func (t *translator) request(r *httputil.ProxyRequest) {
	port, _ := strings.CutSuffix(strings.TrimPrefix(r.In.Host, "p"), "."+mockDomain)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		panic(http.ErrAbortHandler) // fakenet gives no other host to the proxy
	}
	query, err := toSuite(r.In.URL.RawQuery)
	err = errors.Join(err, each(r.Out.Header, toSuite))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Out.URL = &url.URL{Scheme: "http", Host: "localhost:" + port, Path: r.In.URL.Path, RawPath: r.In.URL.RawPath, RawQuery: query}
	r.Out.Host = r.Out.URL.Host
	r.Out.Header.Del("Accept-Encoding") // compressed text has no names to find
	r.Out.Body, r.Out.ContentLength = translated(r.In.Body, toSuite), -1
	if r.In.ContentLength == 0 {
		r.Out.Body, r.Out.ContentLength = http.NoBody, 0
	}
}

// answer is the way back.
func (t *translator) answer(r *http.Response) error {
	r.Header.Del("Content-Length")
	r.Body, r.ContentLength = translated(r.Body, t.toClient), -1
	return each(r.Header, t.toClient)
}

// each translates the values of a header.
func each(h http.Header, translate func(string) (string, error)) error {
	var errs []error
	for _, values := range h {
		for i, v := range values {
			var err error
			values[i], err = translate(v)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lines is a body that is translated line by line, as no address is longer.
type lines struct {
	io.Closer
	from      *bufio.Reader
	translate func(string) (string, error)
	ready     bytes.Buffer
	err       error
}

func translated(body io.ReadCloser, translate func(string) (string, error)) io.ReadCloser {
	return &lines{Closer: body, from: bufio.NewReader(body), translate: translate}
}

func (l *lines) Read(p []byte) (int, error) {
	for l.ready.Len() == 0 {
		if l.err != nil {
			return 0, l.err
		}
		var line, out string
		line, l.err = l.from.ReadString('\n')
		out, err := l.translate(line)
		if err != nil {
			l.err = err
			return 0, err
		}
		l.ready.WriteString(out)
	}
	return l.ready.Read(p)
}
