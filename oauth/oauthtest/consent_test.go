package oauthtest_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

// open asks for a consent page without a network.
func (w *world) open(t *testing.T, v url.Values, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, w.authorizeURL(v), nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	rec.Result() // kept by the recorder, which is then safe to share
	return rec
}

var (
	actionRE = regexp.MustCompile(`action="([^"]+)"`)
	tokenRE  = regexp.MustCompile(`name="token" value="([^"]+)"`)
)

// post sends the form of a page, with changes of the request.
func (w *world) postForm(t *testing.T, page *httptest.ResponseRecorder, fields url.Values, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	action, token := actionRE.FindStringSubmatch(page.Body.String()), tokenRE.FindStringSubmatch(page.Body.String())
	if action == nil || token == nil {
		t.Fatalf("no form in %s", page.Body)
	}
	v := url.Values{"token": {token[1]}, "user": {"ada"}, "answer": {"agree"}}
	for name, values := range fields {
		v[name] = values
	}
	r := httptest.NewRequest(http.MethodPost, issuer+action[1], strings.NewReader(v.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range page.Result().Cookies() {
		r.AddCookie(c)
	}
	if change != nil {
		change(r)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

func TestRule_OauthM7_ConsentPageSaysWho(t *testing.T) {
	w := newWorld(t, nil)
	const back = "https://host.example.com/callback"
	page := w.open(t, with(authorization(), "scope", "notes.read notes.write", "redirect_uri", back)).Body.String()
	for _, want := range []string{
		"NOT FOR PRODUCTION", "<dd>host.example.com<small>" + clientID, "<dd>host.example.com<small>" + back, notes, "<li>notes.read</li><li>notes.write</li>", "Example Host", `name="user"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "your own computer") {
		t.Error("a client with a redirect elsewhere is called local")
	}
	// Each sign-in asks, also when one of the same client was agreed to.
	w.signIn(t)
	if rec := w.open(t, authorization()); rec.Code != 200 || rec.Header().Get("Location") != "" {
		t.Errorf("a second sign-in: %d", rec.Code)
	}
}

func TestRule_OauthA3_PageWarnsOfLocalClients(t *testing.T) {
	w := newWorld(t, nil)
	id := "https://cli.example.com/client.json"
	w.net.Set(id, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"client_id":"` + id + `","client_name":"<script>alert(1)</script>","redirect_uris":["http://127.0.0.1/cb","http://localhost/cb"]}`})
	page := w.open(t, with(authorization(), "client_id", id, "redirect_uri", "http://localhost:9/cb")).Body.String()
	if !strings.Contains(page, "your own computer") {
		t.Error("no warning")
	}
	// What counts is where this sign-in leads, whatever else is registered.
	const mixed = "https://mixed.example.com/client.json"
	w.net.Set(mixed, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"client_id":"` + mixed + `","client_name":"Mixed",
		"redirect_uris":["https://mixed.example.com/cb","http://127.0.0.1/cb","https://localhost/cb","https://127.0.0.1:8443/cb","https://app.localhost/cb"]}`})
	for redirect, want := range map[string]bool{
		"https://mixed.example.com/cb": false, "http://127.0.0.1:9/cb": true, "https://localhost/cb": true, "https://127.0.0.1:8443/cb": true, "https://app.localhost/cb": true,
	} {
		page := w.open(t, with(authorization(), "client_id", mixed, "redirect_uri", redirect)).Body.String()
		if !strings.Contains(page, redirect) || strings.Contains(page, "your own computer") != want {
			t.Errorf("%s: warning %v", redirect, !want)
		}
	}
	if strings.Contains(page, "<script") || !strings.Contains(page, "&lt;script&gt;") {
		t.Error("a client's name is not shown as text")
	}
}

func TestConsentHeaders(t *testing.T) {
	w := newWorld(t, nil)
	for redirect, want := range map[string]string{
		loopback:                            "form-action 'self' http://127.0.0.1:43117",
		"http://[::1]:9/callback":           "form-action 'self' http:",
		"https://host.example.com/callback": "form-action 'self' https://host.example.com",
		"https://evil.example/":             "form-action 'none'", // the page of a fault
	} {
		rec := w.open(t, with(authorization(), "redirect_uri", redirect))
		csp := rec.Header().Get("Content-Security-Policy")
		if !strings.HasSuffix(csp, "; "+want) {
			t.Errorf("%s: policy %q does not end in %q", redirect, csp, want)
		}
		for _, part := range []string{"default-src 'none';", "frame-ancestors 'none';", "base-uri 'none';"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: policy %q has no %q", redirect, csp, part)
			}
		}
		if strings.Contains(csp, "unsafe") || rec.Header().Get("Cache-Control") != "no-store" || rec.Header().Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", redirect, rec.Header())
		}
		for _, c := range rec.Result().Cookies() {
			if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
				t.Errorf("cookie %v", c)
			}
		}
	}
}

// An answer counts only from the browser that was shown the page, and once.
func TestConsentIsNotForged(t *testing.T) {
	w := newWorld(t, nil)
	page, other := w.open(t, authorization()), w.open(t, authorization())
	for name, forge := range map[string]func() *httptest.ResponseRecorder{
		"no cookie": func() *httptest.ResponseRecorder {
			return w.postForm(t, page, nil, func(r *http.Request) { r.Header.Del("Cookie") })
		},
		"cookie of another browser": func() *httptest.ResponseRecorder {
			return w.postForm(t, page, nil, func(r *http.Request) {
				r.Header.Del("Cookie")
				r.AddCookie(other.Result().Cookies()[0])
			})
		},
		"no token": func() *httptest.ResponseRecorder { return w.postForm(t, page, url.Values{"token": nil}, nil) },
		"token of another page": func() *httptest.ResponseRecorder {
			return w.postForm(t, page, url.Values{"token": tokenRE.FindStringSubmatch(other.Body.String())[1:]}, nil)
		},
		"another site": func() *httptest.ResponseRecorder {
			return w.postForm(t, page, nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		},
		"another origin": func() *httptest.ResponseRecorder {
			return w.postForm(t, page, nil, func(r *http.Request) {
				r.Header.Del("Sec-Fetch-Site")
				r.Header.Set("Origin", "https://evil.example")
			})
		},
	} {
		if rec := forge(); rec.Code != 403 || rec.Header().Get("Location") != "" {
			t.Errorf("%s: %d, Location %q", name, rec.Code, rec.Header().Get("Location"))
		}
	}
	for _, user := range []string{"", "  ", "a\x00b", strings.Repeat("x", 101)} {
		rec := w.postForm(t, page, url.Values{"user": {user}}, nil)
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), "Please try again") {
			t.Errorf("user %q: %d", user, rec.Code)
		}
	}
	rec := w.postForm(t, page, nil, nil)
	if to := rec.Header().Get("Location"); rec.Code != 303 || !strings.HasPrefix(to, loopback+"?") {
		t.Errorf("the true answer: %d %s", rec.Code, to)
	}
	for _, answer := range []string{"agree", "refuse"} {
		if rec := w.postForm(t, page, url.Values{"answer": {answer}}, nil); rec.Code/100 != 4 || rec.Header().Get("Location") != "" {
			t.Errorf("a second answer: %d", rec.Code)
		}
	}
	// One browser may have several pages open.
	cookie := other.Result().Cookies()[0]
	third := w.open(t, authorization(), cookie)
	if len(third.Result().Cookies()) != 0 {
		t.Error("a browser that has its cookie got another one")
	}
	if rec := w.postForm(t, other, nil, nil); rec.Code != 303 {
		t.Errorf("the first of two pages: %d", rec.Code)
	}
	if rec := w.postForm(t, third, nil, func(r *http.Request) { r.AddCookie(cookie) }); rec.Code != 303 {
		t.Errorf("the second of two pages: %d", rec.Code)
	}
}

// Of several answers at one time one counts, and none after them.
func TestConsentCountsOnce(t *testing.T) {
	w := newWorld(t, nil)
	for range 20 {
		page := w.open(t, authorization())
		var wg sync.WaitGroup
		var mu sync.Mutex
		codes := 0
		answer := func(user string) {
			rec := w.postForm(t, page, url.Values{"user": {user}}, nil)
			if strings.Contains(rec.Header().Get("Location"), "code=") {
				mu.Lock()
				codes++
				mu.Unlock()
			}
		}
		for i := range 6 {
			wg.Go(func() { answer([]string{"ada", ""}[i%2]) }) // "" shows the page again
		}
		wg.Wait()
		answer("ada")
		if codes != 1 {
			t.Fatalf("one page gave %d codes", codes)
		}
	}
}

// A host that is more than a host does not reach the policy.
func TestConsentPolicyIsNotInjected(t *testing.T) {
	w := newWorld(t, nil)
	const id, back = "https://odd.example.com/client.json", "https://a;script-src*'unsafe-inline'/back"
	w.net.Set(id, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"client_id":"` + id + `","client_name":"Odd","redirect_uris":["` + back + `"]}`})
	rec := w.open(t, with(authorization(), "client_id", id, "redirect_uri", back))
	if rec.Code != 400 { // a document with such a host is refused to begin with
		t.Errorf("%d", rec.Code)
	}
	if csp := rec.Header().Get("Content-Security-Policy"); strings.Contains(csp, "script-src") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
}

func TestApproveTellsWhatTheServerSays(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct{ url, user, want string }{
		"unknown redirect": {w.authorizeURL(with(authorization(), "redirect_uri", "https://evil.example/")), "ada", "not registered"},
		"no user":          {w.authorizeURL(authorization()), "", "a user's name is needed"},
		"no page":          {issuer + "/nothing", "ada", "404"},
		"no address":       {"https://as.example.com/%zz", "ada", "escape"},
	} {
		if _, err := w.Approve(t.Context(), nil, c.url, c.user); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever a window is shown below the authorization endpoint, it cannot be
// framed and is not kept.
func TestFrontChannelHeaders(t *testing.T) {
	w := newWorld(t, nil)
	page := w.open(t, authorization())
	for name, rec := range map[string]*httptest.ResponseRecorder{
		"page":            page,
		"early error":     w.open(t, with(authorization(), "response_mode", "form_post")),
		"error":           w.open(t, with(authorization(), "scope", "notes.delete")),
		"fault":           w.open(t, with(authorization(), "client_id", "")),
		"wrong answer":    w.postForm(t, page, url.Values{"token": {"x"}}, nil),
		"answer":          w.postForm(t, page, nil, nil),
		"answer again":    w.postForm(t, page, nil, nil),
		"method":          w.ask(http.MethodPost, "/authorize"),
		"head":            w.ask(http.MethodHead, "/authorize"),
		"unknown session": w.ask(http.MethodGet, "/authorize/none"),
		"callback method": w.ask(http.MethodPut, "/authorize/none"),
		"below":           w.ask(http.MethodGet, "/authorize/a/b"),
	} {
		h := rec.Header()
		if h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Cache-Control"), "no-store") || h.Get("Referrer-Policy") == "" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %d, headers %v", name, rec.Code, h)
		}
		if rec.Code/100 == 3 && rec.Body.Len() > 0 {
			t.Errorf("%s: a redirect with the body %s", name, rec.Body)
		}
	}
}

func (w *world) ask(method, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest(method, issuer+path, nil))
	return rec
}

// The redirect URI comes back as it is written, with the answer after it.
func TestRule_OauthA3_RedirectsComeBackAsWritten(t *testing.T) {
	w := newWorld(t, nil)
	const id = "https://odd.example.com/client.json"
	for uri, joint := range map[string]string{
		"https://odd.example.com/cb":         "?",
		"https://ODD.example.com/cb?":        "",
		"https://odd.example.com/cb?a=1;b=2": "&",
		"https://odd.example.com/cb?x=%zz":   "&",
		"https://odd.example.com/cb?b=%7e&a": "&",
		"https://odd.example.com?z=1&y=2&":   "",
		"http://127.0.0.1/c%2Fb?z=1&a=2":     "&",
	} {
		w := newWorld(t, nil)
		w.net.Set(id, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"client_id":"` + id + `","client_name":"Odd","redirect_uris":["` + uri + `"]}`})
		v := with(authorization(), "client_id", id, "redirect_uri", uri)
		to, err := w.Approve(t.Context(), nil, w.authorizeURL(v), "ada")
		answer, ok := strings.CutPrefix(to, uri+joint)
		if err != nil || !ok {
			t.Errorf("%s: %s, %v", uri, to, err)
			continue
		}
		back, err := url.ParseQuery(answer)
		if err != nil || back.Get("code") == "" || back.Get("state") != "s-1" || back.Get("iss") != issuer || len(back) != 3 {
			t.Errorf("%s: %v, %v", uri, back, err)
		}
		if status, tok := w.post(t, "/token", with(exchange(back.Get("code")), "client_id", id, "redirect_uri", uri)); status != 200 {
			t.Errorf("%s: token endpoint %d %s", uri, status, tok.Error)
		}
		for name, v := range map[string]url.Values{"early error": with(v, "response_type", "token"), "error": with(v, "scope", "notes.delete")} {
			if to := w.open(t, v).Header().Get("Location"); !strings.HasPrefix(to, uri+joint+"error=") {
				t.Errorf("%s: %s: %s", uri, name, to)
			}
		}
		to, err = w.Refuse(t.Context(), nil, w.authorizeURL(v))
		if err != nil || !strings.HasPrefix(to, uri+joint+"error=") {
			t.Errorf("%s: refused: %s, %v", uri, to, err)
		}
	}
	for _, uri := range []string{"HTTPS://odd.example.com/cb", "https://odd.example.com/cb?code=1"} {
		id := "https://odd" + url.QueryEscape(uri[:5]) + ".example.com/client.json"
		w.net.Set(id, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"client_id":"` + id + `","client_name":"Odd","redirect_uris":["` + uri + `"]}`})
		if rec := w.open(t, with(authorization(), "client_id", id, "redirect_uri", uri)); rec.Code != 400 || rec.Header().Get("Location") != "" {
			t.Errorf("%s: %d", uri, rec.Code)
		}
	}
}

// Approve works over a network as well.
func TestApproveOverTheNetwork(t *testing.T) {
	w := newWorld(t, nil)
	srv := httptest.NewTLSServer(w.Server)
	defer srv.Close()
	to, err := w.Approve(t.Context(), srv.Client(), strings.Replace(w.authorizeURL(authorization()), issuer, srv.URL, 1), "ada")
	if err != nil || !strings.HasPrefix(to, loopback+"?") {
		t.Errorf("%s, %v", to, err)
	}
}
