package oauthtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/luikyv/go-oidc/pkg/goidc"

	"github.com/openbot-build/openbot-go/oauth/cimd"
)

//go:embed consent.html
var pageSource string

//go:embed consent.css
var pageStyle string

var (
	pages     = template.Must(template.New("page").Funcs(template.FuncMap{"style": func() template.CSS { return template.CSS(pageStyle) }}).Parse(pageSource)) //nolint:gosec // our own file
	styleHash = func() string {
		sum := sha256.Sum256([]byte(pageStyle))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}()
)

// browserCookie ties a consent page to the browser that opened it.
const browserCookie = "__Host-oauthtest"

// page is what consent.html shows. All of it is data.
type page struct {
	Fault string // shown alone when there is no form

	Action       string
	Token        string
	ClientName   string
	ClientHost   string
	ClientID     string
	RedirectHost string
	RedirectURI  string
	Resource     string
	Scopes       []string
	Local        bool // the redirect URI leads to the user's own computer
	User         string
	Complaint    string
}

// consent is the user's part of a sign-in: the page, and the answer to it. Every
// sign-in asks, so a document that changed never rides on an old consent (A3, M7).
func (s *Server) consent(w http.ResponseWriter, r *http.Request, as *goidc.AuthnSession, c *goidc.Client) (goidc.Status, error) {
	switch { // what the protocol library does not insist on
	case as.CodeChallengeMethod != goidc.CodeChallengeMethodSHA256 || len(as.CodeChallenge) != 43:
		return goidc.StatusFailure, goidc.NewError(goidc.ErrorCodeInvalidRequest, "PKCE with S256 is required")
	case len(as.Resources) != 1:
		return goidc.StatusFailure, goidc.NewError(goidc.ErrorCodeInvalidTarget, "a sign-in is for one resource")
	case as.Prompt == goidc.PromptTypeNone:
		return goidc.StatusFailure, goidc.NewError(goidc.ErrorCodeLoginRequired, "nobody is signed in here")
	}
	if r.Method != http.MethodPost {
		return goidc.StatusPending, s.show(w, r, as, c, "", "")
	}
	cookie, err := r.Cookie(browserCookie)
	if err != nil || !hmac.Equal([]byte(s.formToken(cookie.Value, as.ID)), []byte(r.PostFormValue("token"))) || crossOrigin(r) {
		return goidc.StatusPending, writePage(w, http.StatusForbidden, "'none'", &page{Fault: "this answer does not come from the page that was shown in this browser"})
	}
	user := strings.TrimSpace(r.PostFormValue("user"))
	agreed := r.PostFormValue("answer") == "agree"
	if err := checkUser(user); agreed && err != nil {
		return goidc.StatusPending, s.show(w, r, as, c, user, err.Error())
	}
	if !s.memory.takeSession(as.ID) {
		return goidc.StatusPending, writePage(w, http.StatusConflict, "'none'", &page{Fault: "this page was answered already"})
	}
	if !agreed {
		return goidc.StatusFailure, goidc.NewError(goidc.ErrorCodeAccessDenied, "the user refused")
	}
	as.Subject, as.Username = user, user
	as.GrantedScopes, as.GrantedResources = as.Scopes, as.Resources
	return goidc.StatusSuccess, nil
}

// crossOrigin is what browsers say of a form that another site sent.
func crossOrigin(r *http.Request) bool { return http.NewCrossOriginProtection().Check(r) != nil }

func checkUser(name string) error {
	switch {
	case name == "":
		return errors.New("a user's name is needed")
	case len(name) > 100 || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("a user's name has at most 100 octets, all of them printable")
	}
	return nil
}

func (s *Server) formToken(cookie, session string) string {
	mac := hmac.New(sha256.New, s.cookies)
	mac.Write([]byte(cookie + "\n" + session))
	return hex.EncodeToString(mac.Sum(nil))
}

func (s *Server) show(w http.ResponseWriter, r *http.Request, as *goidc.AuthnSession, c *goidc.Client, user, complaint string) error {
	cookie, err := r.Cookie(browserCookie)
	if err != nil || cookie.Value == "" {
		cookie = &http.Cookie{Name: browserCookie, Value: rand.Text(), Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
		http.SetCookie(w, cookie)
	}
	redirect, err := url.Parse(as.RedirectURI)
	if err != nil {
		return err
	}
	p := &page{
		Action: s.path + "/authorize/" + url.PathEscape(as.ID), Token: s.formToken(cookie.Value, as.ID),
		ClientName: c.Name, ClientHost: clientHost(c.ID), ClientID: c.ID,
		RedirectHost: redirect.Host, RedirectURI: as.RedirectURI,
		Resource: strings.Join(as.Resources, " "), Scopes: strings.Fields(as.Scopes),
		Local: cimd.IsLocal(as.RedirectURI), User: user, Complaint: complaint,
	}
	return writePage(w, http.StatusOK, formTarget(redirect), p)
}

// clientHost is who a client is: the host that vouches for it (oauth M7).
func clientHost(id string) string {
	if u, err := url.Parse(id); err == nil && u.Host != "" {
		return u.Host
	}
	return "a client that registered itself"
}

// formTarget is where the form and the redirect after it may lead. The grammar
// of CSP has no IPv6 literals, so for one of them the scheme must do, and for
// every host that could be read as more than a host.
func formTarget(redirect *url.URL) string {
	if strings.ContainsFunc(redirect.Host, func(r rune) bool {
		return r != '.' && r != '-' && r != ':' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return "'self' " + redirect.Scheme + ":"
	}
	return "'self' " + redirect.Scheme + "://" + redirect.Host
}

func renderFault(w http.ResponseWriter, _ *http.Request, err error) error {
	return writePage(w, http.StatusBadRequest, "'none'", &page{Fault: err.Error()})
}

// setPolicy sets the headers of all that browsers' windows are shown.
func setPolicy(h http.Header, style, formAction string) {
	h.Set("Content-Security-Policy", "default-src 'none'; "+style+"; base-uri 'none'; frame-ancestors 'none'; form-action "+formAction)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func writePage(w http.ResponseWriter, status int, formAction string, p *page) error {
	var b bytes.Buffer
	if err := pages.Execute(&b, p); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	setPolicy(w.Header(), "style-src "+styleHash, formAction)
	w.WriteHeader(status)
	_, err := w.Write(b.Bytes())
	return err
}
