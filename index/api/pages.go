package api

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

//go:embed pages
var pageFiles embed.FS

// pages renders the search page in one language. It has no scripts and loads
// nothing but itself: pictures of strangers, above all, would tell them who
// searches. So results have no icons; the API names them for whoever wants
// them.
type pages struct {
	lang      string
	templates *template.Template
	css       template.CSS
	policy    string
	version   string // of templates, words and style, for ETags
}

// newPages gives the pages by language.
func newPages() (map[string]*pages, error) {
	css, err := pageFiles.ReadFile("pages/style.css")
	if err != nil {
		return nil, err
	}
	html, err := pageFiles.ReadFile("pages/pages.html")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(css)
	out := make(map[string]*pages)
	for _, lang := range pageLanguages {
		p := &pages{lang: lang, css: template.CSS(css)} //nolint:gosec // our own file
		p.templates, err = template.New("pages").Funcs(template.FuncMap{
			"lang":  func() string { return lang },
			"t":     p.say,
			"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
			"day":   func(t time.Time) string { return sayDay(lang, t) },
			"host":  func(origin string) string { return strings.TrimPrefix(origin, "https://") },
		}).Parse(string(html))
		if err != nil {
			return nil, err
		}
		p.policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
		p.version = strings.Trim(bodyTag(fmt.Append(nil, lang, chinese, string(css), string(html))), `W/"`)
		out[lang] = p
	}
	return out, nil
}

func (p *pages) say(text string, args ...any) string { return say(p.lang, text, args...) }

// title gives the title of a document, for a tab and a search engine.
func (p *pages) title(of string) string { return of + " · " + p.say("OpenBot index") }

// pageOf gives the pages in the language of a request, and says in the answer
// that it depends on it.
func (h *handler) pageOf(w http.ResponseWriter, r *http.Request) *pages {
	if !slices.Contains(w.Header().Values("Vary"), "Accept-Language") {
		w.Header().Add("Vary", "Accept-Language")
	}
	return h.page[languageOf(r)]
}

// view is what every page needs.
type view struct {
	Title   string
	CSS     template.CSS
	Q       string
	Loaded  bool
	Live    int
	About   string
	Contact string
}

type resultsView struct {
	view
	Items                 []*item
	Searched, Some, Paged bool
	Next, First           string
}

type appView struct {
	view
	Item *item
}

type noteView struct {
	view
	Heading string
	Lines   []string
	Detail  string // of an error, in English
	Tone    string // "", "warn" or "bad"
	Form    bool
}

// isPage reports whether an answer is for people: a page's address, or one
// that nothing has, asked for by a browser.
func isPage(r *http.Request) bool {
	switch path := r.URL.Path; {
	case path == "/" || path == "/submit" || strings.HasPrefix(path, "/apps/"):
		return true
	case path == "/v1" || strings.HasPrefix(path, "/v1/") || path == "/openapi.json":
		return false
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (h *handler) installPages(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", h.getHome)
	mux.HandleFunc("GET /apps/{id}", h.getAppPage)
	mux.HandleFunc("POST /submit", h.postForm)
}

func (h *handler) view(p *pages, title string) view {
	s := h.opts.Search.Status()
	return view{Title: title, CSS: p.css, Loaded: s.Loaded, Live: s.Live, About: h.opts.About, Contact: h.opts.Contact}
}

// getHome shows a search or the listing. Parameters that it does not know are
// not looked at: links to pages are decorated on their way.
func (h *handler) getHome(w http.ResponseWriter, r *http.Request) {
	pages, query := h.pageOf(w, r), r.URL.Query()
	f, p := h.find(r.Context(), ask{q: query.Get("q"), cursor: query.Get("cursor")})
	if p != nil {
		pages.problem(w, p)
		return
	}
	if h.notModified(w, r, pages, strings.TrimSuffix(f.tag, `"`)+"-"+pages.version+`"`) {
		return
	}
	v := resultsView{
		view: h.view(pages, pages.say("OpenBot index")), Searched: f.q != "", Some: f.Tier == "any",
		Paged: query.Get("cursor") != "", First: "/",
	}
	v.Q = f.q
	if f.q != "" {
		v.Title = pages.title(f.q)
		v.First = "/?" + url.Values{"q": {f.q}}.Encode()
	}
	if f.next != "" {
		v.Next = "/?" + url.Values{"cursor": {f.next}}.Encode()
	}
	for _, m := range f.items {
		v.Items = append(v.Items, m.item)
	}
	pages.write(w, http.StatusOK, "results", v)
}

func (h *handler) getAppPage(w http.ResponseWriter, r *http.Request) {
	pages := h.pageOf(w, r)
	var e *index.Entry
	p := newProblem(http.StatusNotFound, "There is no app at this address.")
	if id := r.PathValue("id"); isID(id) {
		e, p = h.entry(r.Context(), id)
	}
	if p != nil {
		pages.problem(w, p)
		return
	}
	m, err := h.items.of(e)
	if err != nil {
		pages.problem(w, newProblem(http.StatusInternalServerError, ourFault))
		return
	}
	if h.notModified(w, r, pages, bodyTag(append(slices.Clone(m.body), pages.version...))) {
		return
	}
	pages.write(w, http.StatusOK, "app", appView{h.view(pages, pages.title(m.item.Title)), m.item})
}

func (h *handler) notModified(w http.ResponseWriter, r *http.Request, p *pages, tag string) bool {
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", keepShort)
	if !matches(r.Header.Get("If-None-Match"), tag) {
		return false
	}
	p.headers(w)
	w.WriteHeader(http.StatusNotModified)
	return true
}

// postForm takes the form's submission. It changes nothing for whoever sends
// it, so a form on a foreign site that posts here gains nothing.
func (h *handler) postForm(w http.ResponseWriter, r *http.Request) {
	pages := h.pageOf(w, r)
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		p := newProblem(http.StatusBadRequest, "The form could not be read.")
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			p = newProblem(http.StatusRequestEntityTooLarge, bodyTooLarge)
		}
		pages.problem(w, p)
		return
	}
	if p := h.submit(r.Context(), r.PostForm.Get("url")); p != nil {
		pages.problem(w, p)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	pages.write(w, http.StatusAccepted, "note", noteView{
		view: h.view(pages, pages.title(pages.say("Submitted"))), Heading: pages.say("Thank you"), Form: true,
		Lines: []string{pages.say(acceptance.Message), pages.say("Search for the app in a few minutes.")},
	})
}

// problem shows an error as a page.
func (p *pages) problem(w http.ResponseWriter, pr *problem) {
	for name, values := range pr.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Del("ETag")
	heading := p.say(pr.Title)
	v := noteView{
		view: view{Title: p.title(heading), CSS: p.css, Loaded: true, Live: -1}, Heading: heading, Detail: pr.Detail, Tone: "warn",
		Form: pr.Status == http.StatusNotFound || pr.Status == http.StatusBadRequest,
	}
	if t := pr.Gone; t != nil {
		v.Heading, v.Detail = p.say("This app has left the index"), ""
		v.Lines = []string{p.say(reasonText(index.Reason(t.Reason))), p.say("It was %s, until %s.", t.CardURL, sayDay(p.lang, t.At))}
	}
	if pr.Status >= 500 {
		v.Tone = "bad"
	}
	p.write(w, pr.Status, "note", v)
}

// reasonText says in words why an app is not shown any more.
func reasonText(r index.Reason) string {
	switch r {
	case index.ReasonDelisted:
		return "Its publisher's catalog does not list it any more."
	case index.ReasonNoIndex, index.ReasonDisallowed:
		return "Its publisher asked that it not be indexed."
	case index.ReasonGone:
		return "Its card is gone."
	case index.ReasonInvalid:
		return "Its card is not a valid one any more."
	case index.ReasonBlocked:
		return "The operator of this index has removed it."
	}
	return "Its card, or the catalog that lists it, could not be read for a long time."
}

func (p *pages) headers(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

func (p *pages) write(w http.ResponseWriter, status int, name string, v any) {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, v); err != nil {
		// Templates and their data are ours; a test runs each of them.
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	p.headers(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// A client that is gone cannot be told anything.
	_, _ = w.Write(b.Bytes())
}
