// Package fakenet is a public Internet in memory: names, addresses, TLS and
// answers for tests of everything that goes out through publicnet. It lies
// below publicnet's checks and switches none of them off.
//
// A Net is filled from a story (see [Net.Load]), by hand ([Net.Set],
// [Net.Handle]) or both. Each host gets an address of its own that looks
// public, and a certificate of one authority made for the process. No socket
// is opened and no goroutine outlives [Net.Close], so a Net can be made, used
// and closed inside a testing/synctest bubble; make it inside, not before.
package fakenet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Fault is a way in which an answer goes wrong.
type Fault string

// The faults of an Answer.
const (
	Timeout Fault = "timeout" // the request is read and never answered
	Reset   Fault = "reset"   // the connection closes without an answer
	Cut     Fault = "cut"     // the connection closes in the middle of the body
	Slow    Fault = "slow"    // one octet of the body a second
)

// Answer is what a server says to one request.
type Answer struct {
	Status int // 0 is 200
	// Header is sent as it is. Without a Content-Type one is chosen by path and
	// body; an empty Content-Type sends none. With an ETag or Last-Modified
	// and status 200, a conditional request that matches is answered with 304
	// and the same header.
	Header http.Header
	Body   string
	Wait   time.Duration // before the answer begins
	Fault  Fault
}

// DNS is one answer to a lookup: addresses, or an error word.
type DNS struct {
	Addrs []netip.Addr
	Err   string // "nxdomain", "servfail", or "timeout"
}

// Request is a request that a host of the Net received.
type Request struct {
	Time   time.Time
	Method string
	URL    string // absolute, with the target exactly as it was sent
	Header http.Header
	Addr   netip.Addr // that was dialled for it
}

func (r Request) String() string { return r.Method + " " + r.URL }

// Net is an Internet. Its methods are safe for use by several goroutines.
type Net struct {
	mu       sync.Mutex
	hosts    map[string]*host // by name without port
	byAddr   map[netip.Addr]*host
	answers  map[string]*script[Answer] // by method and URL
	handlers map[string]http.Handler    // by authority
	requests []Request
	lookups  []string
	dials    []netip.AddrPort

	closed  bool
	server  *http.Server
	conns   chan net.Conn
	done    chan struct{}
	running sync.WaitGroup
}

type host struct {
	addr    netip.Addr
	dns     script[DNS]
	tls     script[string] // a state of SetTLS
	connect script[string] // "ok", "refused", "timeout"
}

// script is a row of answers; the last one repeats.
type script[T any] struct {
	all  []T
	next int
}

func (s *script[T]) take() (answer T, ok bool) {
	if s == nil || len(s.all) == 0 {
		return answer, false
	}
	answer = s.all[min(s.next, len(s.all)-1)]
	s.next++
	return answer, true
}

// New gives an Internet without hosts.
func New() *Net {
	return &Net{
		hosts:    make(map[string]*host),
		byAddr:   make(map[netip.Addr]*host),
		answers:  make(map[string]*script[Answer]),
		handlers: make(map[string]http.Handler),
		conns:    make(chan net.Conn),
		done:     make(chan struct{}),
	}
}

// Below is what a publicnet.Network is put on.
func (n *Net) Below() publicnet.Below {
	return publicnet.Below{Resolver: resolver{n}, Dial: n.dial, Roots: authority().pool}
}

// Host makes a host known and gives its address. Set, Handle and a story do it
// for every host that they mention.
func (n *Net) Host(name string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.host(name).addr
}

// host needs the lock.
func (n *Net) host(name string) *host {
	h := n.hosts[name]
	if h == nil {
		// 93.184.0.1 and on: public for every guard, and never contacted.
		i := len(n.hosts) + 1
		h = &host{addr: netip.AddrFrom4([4]byte{93, byte(184 + i>>16), byte(i >> 8), byte(i)})}
		n.hosts[name] = h
		n.byAddr[h.addr] = h
	}
	return h
}

// Set gives the answers to GET and HEAD of one URL, in order; the last one
// repeats. Answers that the URL had before are forgotten.
func (n *Net) Set(url string, answers ...Answer) { n.set("GET", url, answers) }

// SetMethod is Set for another method.
func (n *Net) SetMethod(method, url string, answers ...Answer) { n.set(method, url, answers) }

func (n *Net) set(method, url string, answers []Answer) {
	u := mustParse(url)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host(u.Host())
	n.answers[method+" "+u.String()] = &script[Answer]{all: slices.Clone(answers)}
}

// Handle gives every request to an authority (a host, or host:port) that has
// no answer of its own to h.
func (n *Net) Handle(authority string, h http.Handler) {
	u := mustParse("https://" + authority)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host(u.Host())
	n.handlers[u.Authority()] = h
}

// SetDNS gives the answers to lookups of a host, in order; the last one
// repeats. Every address in them leads to the Net's server, so that a test can
// see who dials it.
func (n *Net) SetDNS(name string, answers ...DNS) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.host(name)
	h.dns = script[DNS]{all: slices.Clone(answers)}
	for _, answer := range answers {
		for _, a := range answer.Addrs {
			if a = a.Unmap(); n.byAddr[a] == nil {
				n.byAddr[a] = h
			}
		}
	}
}

// SetTLS says what the host's connections show, in order, one after another;
// the last one repeats: "ok", "expired", "selfsigned", "wrongname" (a
// certificate of another host) or "tls11" (nothing newer than TLS 1.1).
func (n *Net) SetTLS(name string, states ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host(name).tls = script[string]{all: slices.Clone(states)}
}

// SetConnect says what dials of the host's addresses meet, in order; the last
// one repeats: "ok", "refused" or "timeout".
func (n *Net) SetConnect(name string, states ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host(name).connect = script[string]{all: slices.Clone(states)}
}

// Requests are the requests received since the start or Reset, in order.
func (n *Net) Requests() []Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.requests)
}

// Lookups are the names looked up, exactly as asked, in order.
func (n *Net) Lookups() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lookups)
}

// Dials are the addresses dialled, in order, also those that nobody has.
func (n *Net) Dials() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dials)
}

// Reset forgets requests, lookups and dials, and begins every row of answers
// anew.
func (n *Net) Reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests, n.lookups, n.dials = nil, nil, nil
	for _, s := range n.answers {
		s.next = 0
	}
	for _, h := range n.hosts {
		h.dns.next, h.tls.next, h.connect.next = 0, 0, 0
	}
}

// Close ends all connections and waits for the Net's goroutines.
func (n *Net) Close() {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return
	}
	n.closed = true
	server := n.server
	n.mu.Unlock()
	close(n.done)
	if server != nil {
		server.Close()
	}
	n.running.Wait()
}

func mustParse(url string) weburl.URL {
	u, err := weburl.Parse(url)
	if err != nil {
		panic(fmt.Sprintf("fakenet: %v", err))
	}
	return u
}

// resolver answers lookups. A name that nobody mentioned does not exist, and
// neither does one that is not absolute.
type resolver struct{ net *Net }

func (r resolver) LookupNetIP(ctx context.Context, _, name string) ([]netip.Addr, error) {
	n := r.net
	n.mu.Lock()
	n.lookups = append(n.lookups, name)
	var answer DNS
	bare, absolute := strings.CutSuffix(name, ".")
	if h := n.hosts[bare]; h == nil || !absolute {
		answer.Err = "nxdomain"
	} else if scripted, ok := h.dns.take(); ok {
		answer = scripted
	} else {
		answer.Addrs = []netip.Addr{h.addr}
	}
	n.mu.Unlock()
	fault := &net.DNSError{Err: "no such host", Name: name}
	switch answer.Err {
	case "":
		return slices.Clone(answer.Addrs), nil
	case "timeout":
		select {
		case <-ctx.Done():
		case <-n.done:
		}
		fault.Err, fault.IsTimeout = "i/o timeout", true
	case "servfail":
		fault.Err, fault.IsTemporary = "server misbehaving", true
	default:
		fault.IsNotFound = true
	}
	return nil, fault
}
