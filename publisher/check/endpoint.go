package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Limits of a call of an endpoint (documents W10).
const (
	endpointTime  = 10 * time.Second
	endpointBytes = 1 << 20
	callsAtOnce   = 4
)

// answer is what an endpoint said to server/discover.
type answer struct {
	notCalled string // why it was not asked; the rest is then empty

	status  int // 0 when there was no HTTP answer
	header  http.Header
	lost    error // why there was no answer, or why its body ended early
	failure error // why there is no result, in the SDK's words

	result *mcp.DiscoverResult
	server *mcp.Implementation // nil when the answer names none

	lists   *lists  // nil when they were not asked for
	signIn  *signIn // nil when no sign-in was asked for
	foreign int     // status of a call from a foreign page; 0: none, or no answer
}

// callEndpoints asks the endpoint of each app, some at a time. Answer i is that
// of app i.
func (w *walk) callEndpoints(ctx context.Context, apps []discovery.Candidate) []*answer {
	answers := make([]*answer, len(apps))
	w.each(len(apps), func(i int) { answers[i] = callEndpoint(ctx, w.client, apps[i].Endpoint) })
	return answers
}

// callEndpoint sends server/discover, as a host does that knows nothing of its
// user yet. If it is answered the lists are asked for; if sign-in is asked for,
// where that is.
func callEndpoint(ctx context.Context, client *http.Client, remote *card.Remote) *answer {
	if remote == nil {
		return &answer{notCalled: "the card declares no versions for its endpoint"}
	}
	if settings := settingsOf(remote); len(settings) > 0 {
		return &answer{notCalled: "needs settings (" + strings.Join(settings, ", ") + ")"}
	}
	url, err := weburl.Parse(remote.URL)
	if err != nil {
		return &answer{lost: err}
	}
	a := discover(ctx, client, url.String())
	switch {
	case a.usable():
		a.foreign = foreignCall(ctx, client, url.String())
	case a.protected():
		a.signIn = lookAtSignIn(ctx, client, remote.URL, a.header)
	}
	return a
}

// usable reports whether hosts can go on with what was answered.
func (a *answer) usable() bool {
	return a.result != nil && a.failure == nil && slices.Contains(a.result.SupportedVersions, card.ProtocolVersion)
}

// protected reports whether sign-in is asked for.
func (a *answer) protected() bool {
	return (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden) && a.header.Get("WWW-Authenticate") != ""
}

// foreignCall sends server/discover as a page of a foreign origin would, and
// gives the status.
func foreignCall(ctx context.Context, client *http.Client, url string) int {
	r, err := ask(ctx, client, http.MethodPost, url, discoverHeader("Origin", foreign), discoverBody)
	if err != nil {
		return 0 // the endpoint is judged by what it says to hosts
	}
	return r.status
}

// settingsOf names what a person would have to fill in first.
func settingsOf(remote *card.Remote) []string {
	var names []string
	for rest := remote.URL; ; {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			break
		}
		var name string
		name, rest, _ = strings.Cut(after, "}")
		names = append(names, fmt.Sprintf("variable %q", clip(name)))
	}
	for i := range remote.Headers {
		if h := &remote.Headers[i]; h.IsRequired && !h.Forbidden() {
			names = append(names, fmt.Sprintf("header %q", clip(h.Name)))
		}
	}
	return names
}

// discover asks server/discover, and for the lists if that is answered.
func discover(whole context.Context, client *http.Client, url string) *answer {
	ctx, cancel := context.WithTimeout(whole, endpointTime)
	defer cancel()
	a := &answer{}
	one := &singleRequest{next: client.Transport}
	single := *client
	single.Transport = one
	single.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	c := mcp.NewClient(&mcp.Implementation{Name: "openbot-publisher-check", Version: "1"},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	// Connect hides the failure of discover behind that of the initialize which
	// it tries next, and an answer without a common version altogether.
	var asked sync.Once
	c.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, req)
			asked.Do(func() {
				a.result, _ = res.(*mcp.DiscoverResult)
				a.failure = err
			})
			return res, err
		}
	})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &single, DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: card.ProtocolVersion})
	if err == nil {
		a.server = session.InitializeResult().ServerInfo
		if v := session.InitializeResult().ProtocolVersion; v != card.ProtocolVersion {
			a.failure = fmt.Errorf("chose version %s", clip(v))
		}
	}
	a.status, a.header, a.lost = one.seen()
	if session != nil {
		if a.usable() {
			one.allow(maxRequests)
			a.lists = readLists(whole, session, a.result.Capabilities)
			one.allow(0)
		}
		_ = session.Close() // says nothing about the endpoint: no request leaves any more
	}
	if a.lost == nil && errors.Is(a.failure, context.DeadlineExceeded) {
		a.lost = publicnet.ErrTimeout // it answered, and not to the question
	}
	return a
}

// judge says what the answer means for the app whose endpoint gave it. at
// points to the remote in the card.
func (a *answer) judge(s *Section, c *card.Card, remote *card.Remote, at string) {
	url := at + "/url"
	switch {
	case a.notCalled != "":
		s.fact("endpoint not called: %s", a.notCalled)
	case a.status == 0 && a.lost != nil:
		judgeLost(s, url, remote.URL, a.lost)
	case a.status == 0:
		s.fault("OB-51", url, "the endpoint could not be asked: %s", clip(fmt.Sprint(a.failure)))
	case !a.judgeStatus(s, url, remote.URL):
	case a.lost != nil && a.result == nil:
		judgeLost(s, url, remote.URL, a.lost)
	case a.result == nil && !a.judgeType(s, url):
	case a.result == nil:
		s.fault("OB-51", url, "the endpoint's answer to server/discover cannot be read (%s): answer with one JSON-RPC result", clip(strings.TrimPrefix(fmt.Sprint(a.failure), "calling \"server/discover\": ")))
	default:
		a.compare(s, c, remote, at)
	}
}

// judgeLost speaks of an answer that did not come, or not in full.
func judgeLost(s *Section, pointer, address string, err error) {
	e := discovery.FetchError(address, err)
	switch e.Kind {
	case discovery.DNS:
		s.fault("OB-151", pointer, "the name of the endpoint cannot be looked up: create its DNS record, or correct the address in the card")
	case discovery.Connect:
		s.fault("OB-51", pointer, "no connection to the endpoint, or it broke%s: start the server, and let the Internet reach it", clause(connectionFault(err)))
	case discovery.TLS:
		s.fault("OB-154", pointer, "no secure connection to the endpoint (%s): repair its certificate, or its TLS settings", clip(orText(connectionFault(err), orText(e.Detail, "TLS failed"))))
	case discovery.Timeout:
		s.fault("OB-153", pointer, "the endpoint did not answer server/discover within %v: make it answer sooner, hosts ask it first", endpointTime)
	case discovery.TooLarge:
		s.fault("OB-153", pointer, "the endpoint's answer to server/discover is larger than %d bytes: shorten it", endpointBytes)
	case discovery.BlockedAddress:
		if u, err := weburl.Parse(address); err == nil && u.Port() != 443 {
			s.advise("OB-151", pointer, "endpoint not called: hosts reach port %d only after their user agreed to it; serve it on port 443", u.Port())
			return
		}
		s.fault("OB-150", pointer, "the endpoint cannot be reached: %s", clip(e.Error()))
	case discovery.BadAnswer:
		s.fault("OB-52", pointer, "the endpoint's answer breaks off or breaks the rules of HTTP (%s): repair the server", clip(e.Detail))
	default:
		s.fault("OB-51", pointer, "the endpoint cannot be used: %s", clip(e.Error()))
	}
}

// judgeStatus reports whether the status leaves anything to compare.
func (a *answer) judgeStatus(s *Section, pointer, address string) bool {
	switch st := a.status; {
	case a.protected():
		scheme, _, _ := strings.Cut(a.header.Get("WWW-Authenticate"), " ")
		s.fact("protected: sign-in needed (status %d, %s); name, version and lists were not looked at", st, clip(scheme))
		if a.signIn != nil {
			a.signIn.judge(s, pointer, address)
		}
	case st == http.StatusUnauthorized:
		s.fault("OB-60", pointer, "the endpoint answers 401 without a WWW-Authenticate challenge: send one, or hosts cannot tell where to sign in")
	case st == http.StatusForbidden:
		s.fault("OB-60", pointer, "the endpoint refuses server/discover (403) without a WWW-Authenticate challenge: let hosts in, or answer 401 with a challenge")
	case st >= 300 && st < 400:
		s.fault("OB-153", pointer, "the endpoint redirects (%d) to %q: hosts do not follow; write the address where it ends in the card", st, clip(a.header.Get("Location")))
	case st == http.StatusTooManyRequests:
		s.advise("OB-51", pointer, "the endpoint answers 429, so it was not compared: try again later")
	case st >= 500:
		s.fault("OB-51", pointer, "the endpoint fails (status %d): repair or restart the server", st)
	case a.result == nil && a.wire() != nil:
		a.judgeRefusal(s, pointer, a.wire())
	case st == http.StatusNotFound, st == http.StatusGone:
		s.fault("OB-51", pointer, "nothing is at the endpoint (status %d): correct the address in the card, or start the server", st)
	case st == http.StatusMethodNotAllowed:
		s.fault("OB-52", pointer, "the endpoint does not take POST (405): an MCP endpoint must; correct the address in the card")
	case st < 200 || st >= 300:
		s.fault("OB-51", pointer, "the endpoint answers server/discover with status %d: it seems not to speak MCP %s; update the server", st, card.ProtocolVersion)
	default:
		return true
	}
	return false
}

// rejected is the code of an error that the SDK makes itself of an answer that
// holds none.
const rejected = -32005

// wire is the JSON-RPC error that was answered, if one was.
func (a *answer) wire() *jsonrpc.Error {
	if e, ok := errors.AsType[*jsonrpc.Error](a.failure); ok && e.Code != rejected {
		return e
	}
	return nil
}

func (a *answer) judgeRefusal(s *Section, pointer string, e *jsonrpc.Error) {
	if e.Code == jsonrpc.CodeMethodNotFound || e.Code == mcp.CodeUnsupportedProtocolVersion {
		only := ""
		var data mcp.UnsupportedProtocolVersionData
		if json.Unmarshal(e.Data, &data) == nil && len(data.Supported) > 0 {
			only = ", it names " + clip(strings.Join(data.Supported, ", "))
		}
		s.fault("OB-51", pointer, "the endpoint does not speak MCP %s (error %d, %q%s): update the server", card.ProtocolVersion, e.Code, clip(e.Message), only)
		return
	}
	s.fault("OB-51", pointer, "the endpoint refuses server/discover (error %d, %q): it must answer any host", e.Code, clip(e.Message))
}

// judgeType reports whether the media type is one that an endpoint may use.
func (a *answer) judgeType(s *Section, pointer string) bool {
	header := a.header.Get("Content-Type")
	switch kind, _, _ := mime.ParseMediaType(header); kind {
	case "application/json", "text/event-stream":
		return true
	case "text/html", "application/xhtml+xml":
		s.fault("OB-52", pointer, "a web page is at the endpoint: write the address of the MCP server in the card")
	default:
		s.fault("OB-52", pointer, "the endpoint's Content-Type is %s: answer as application/json or text/event-stream", orNone(clip(header), "missing"))
	}
	return false
}

// compare holds the card against what the endpoint says of itself. Where they
// differ hosts go by the endpoint (OB-14).
func (a *answer) compare(s *Section, c *card.Card, remote *card.Remote, at string) {
	live := a.result.SupportedVersions
	listed := clip(orText(strings.Join(live, ", "), "none"))
	if !slices.Contains(live, card.ProtocolVersion) {
		s.fault("OB-10", at+"/supportedProtocolVersions", "the endpoint's supportedVersions lack %s (%s): update the server, hosts connect to nothing older", card.ProtocolVersion, listed)
		return
	}
	if a.failure != nil {
		s.fault("OB-51", at+"/url", "the endpoint cannot be used: %s", clip(a.failure.Error()))
		return
	}
	s.pass("OB-51", "server/discover answers; supportedVersions %s", listed)
	switch {
	case a.foreign == http.StatusForbidden:
		s.pass("OB-5", "pages of other origins are refused (403)")
	case a.foreign != 0:
		s.advise("OB-5", at+"/url", "a call from a page of any origin gets status %d: answer 403 to an Origin that you did not allow", a.foreign)
	}
	if a.lists != nil {
		a.lists.judge(s, at+"/url")
	}
	for _, v := range remote.Versions {
		if !slices.Contains(live, v) {
			s.advise("OB-14", at+"/supportedProtocolVersions", "declares %q, which the endpoint's supportedVersions lack (%s); live values win: correct the card or the server", clip(v), listed)
		}
	}
	if a.server == nil {
		s.advise("OB-14", "/name", "the endpoint does not say who it is: send serverInfo with name and version in the _meta of each result")
		return
	}
	for _, m := range []struct{ pointer, card, live string }{
		{"/name", c.Name, a.server.Name},
		{"/version", c.Version, a.server.Version},
	} {
		if m.card == m.live {
			s.pass("OB-14", "%s as in the card: %q", m.pointer[1:], clip(m.live))
		} else {
			s.advise("OB-14", m.pointer, "the card says %q, the endpoint %q; live values win: make them the same", clip(m.card), clip(m.live))
		}
	}
}

// clip shortens a stranger's text for a sentence.
func clip(s string) string {
	const most = 200
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// clause puts a cause in brackets, if there is one.
func clause(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func orText(s, none string) string {
	if s == "" {
		return none
	}
	return s
}
