package discovery_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
)

const somewhere = "https://apps.example.com/x"

func document(status int, typ, body string) *discovery.Document {
	h := http.Header{}
	if typ != "" {
		h.Set("Content-Type", typ)
	}
	return &discovery.Document{URL: somewhere, FinalURL: somewhere, Status: status, Header: h, Body: []byte(body)}
}

var (
	aCatalog = catalogText(lists("https://apps.example.com/card"))
	aCard    = cardText("x")
)

const aPage = "<!doctype html><title>Shop</title>"

// answers is the table of OB-37, with what each answer is where something is
// due. An empty kind means the document is read.
var answers = []struct {
	name     string
	status   int
	typ      string
	body     string
	classify discovery.Want // "" when an error is due
	fault    discovery.Kind // of Classify
	catalog  discovery.Kind // of ReadCatalog
	card     discovery.Kind // of ReadCard
	warns    bool
}{
	{"exact catalog", 200, catalog.MediaType, aCatalog, discovery.WantCatalog, "", "", discovery.WrongType, false},
	{"exact catalog, case and parameter", 200, `Application/AI-Catalog+JSON; charset="utf-8"`, aCatalog, discovery.WantCatalog, "", "", discovery.WrongType, false},
	{"exact card", 200, card.MediaType, aCard, discovery.WantCard, "", discovery.WrongType, "", false},
	{"json catalog", 200, "application/json; charset=utf-8", aCatalog, discovery.WantCatalog, "", "", discovery.InvalidCard, true},
	{"octets catalog", 200, "application/octet-stream", aCatalog, discovery.WantCatalog, "", "", discovery.InvalidCard, true},
	{"text catalog", 200, "text/plain", aCatalog, discovery.WantCatalog, "", "", discovery.InvalidCard, true},
	{"untyped catalog", 200, "", aCatalog, discovery.WantCatalog, "", "", discovery.InvalidCard, true},
	{"json card", 200, "application/json", aCard, discovery.WantCard, "", discovery.InvalidCatalog, "", true},
	{"octets card", 200, "application/octet-stream", aCard, discovery.WantCard, "", discovery.InvalidCatalog, "", true},
	{"untyped card", 200, "", aCard, discovery.WantCard, "", discovery.InvalidCatalog, "", true},
	{"card by name and remotes", 200, "application/json", `{"name":"a/b","remotes":[]}`, discovery.WantCard, "", discovery.InvalidCatalog, discovery.InvalidCard, true},
	{"catalog with a byte order mark", 200, "application/json", "\xef\xbb\xbf" + aCatalog, discovery.WantCatalog, "", "", discovery.InvalidCard, true},
	{"catalog that names a schema", 200, "application/json", `{"$schema":"x","specVersion":"1.0","entries":[]}`, discovery.WantCatalog, "", "", discovery.InvalidCard, true},
	{"members in another case", 200, "application/json", `{"SpecVersion":"1.0","Entries":[],"$Schema":""}`, "", discovery.WrongType, discovery.InvalidCatalog, discovery.InvalidCard, false},
	{"entries alone", 200, "application/json", `{"entries":[]}`, "", discovery.WrongType, discovery.InvalidCatalog, discovery.InvalidCard, false},
	{"a list", 200, "application/json", `[1]`, "", discovery.WrongType, discovery.InvalidCatalog, discovery.InvalidCard, false},
	{"broken json", 200, "application/json", `{"specVersion":"1.0","entries":[`, "", discovery.BadJSON, discovery.BadJSON, discovery.BadJSON, false},
	{"cut before its end", 200, "application/json", `{"specVersion":"1.0","entries":[]`, "", discovery.BadJSON, discovery.BadJSON, discovery.BadJSON, false},
	{"empty", 200, "application/json", "", "", discovery.BadJSON, discovery.BadJSON, discovery.BadJSON, false},
	{"page", 200, "text/html; charset=utf-8", aPage, discovery.WantPage, "", discovery.WebPage, discovery.WebPage, false},
	{"document labelled as page", 200, "text/html", aCatalog, discovery.WantPage, "", discovery.WebPage, discovery.WebPage, false},
	{"page labelled JSON", 200, "application/json; charset=utf-8", aPage, discovery.WantPage, "", discovery.WebPage, discovery.WebPage, true},
	{"page labelled catalog", 200, catalog.MediaType, "\n <!DOCTYPE HTML PUBLIC \"x\">", discovery.WantPage, "", discovery.WebPage, discovery.WrongType, true},
	{"page labelled card", 200, card.MediaType, "\xef\xbb\xbf<html\nlang=en>", discovery.WantPage, "", discovery.WrongType, discovery.WebPage, true},
	{"untyped page", 200, "", "<!-- app --><html>", discovery.WantPage, "", discovery.WebPage, discovery.WebPage, true},
	{"xml labelled JSON", 200, "application/json", "<?xml version='1.0'?><rss/>", "", discovery.BadJSON, discovery.BadJSON, discovery.BadJSON, false},
	{"no html after all", 200, "application/json", "<!doctypehtml", "", discovery.BadJSON, discovery.BadJSON, discovery.BadJSON, false},
	{"picture", 200, "image/png", "\x89PNG", "", discovery.WrongType, discovery.WrongType, discovery.WrongType, false},
	{"near miss of the type", 200, "application/ai-catalog", aCatalog, "", discovery.WrongType, discovery.WrongType, discovery.WrongType, false},
	{"not found", 404, catalog.MediaType, aCatalog, "", discovery.HTTPStatus, discovery.HTTPStatus, discovery.HTTPStatus, false},
	{"no content", 204, "", "", "", discovery.HTTPStatus, discovery.HTTPStatus, discovery.HTTPStatus, false},
	{"partial", 206, catalog.MediaType, aCatalog, "", discovery.HTTPStatus, discovery.HTTPStatus, discovery.HTTPStatus, false},
	{"not modified without a stored body", 304, catalog.MediaType, "", "", discovery.HTTPStatus, discovery.HTTPStatus, discovery.HTTPStatus, false},
}

// OB-37, D8, documents R2 and R3, FO-03, FO-04: an answer is what its type and
// shape say.
func TestRule_OB37_ClassifiedByAnswer(t *testing.T)         { testAnswers(t) }
func TestRule_D8_MediaTypes(t *testing.T)                   { testAnswers(t) }
func TestRule_DocumentsR2_MediaTypes(t *testing.T)          { testAnswers(t) }
func TestRule_DocumentsR3_ShapeOfGenericTypes(t *testing.T) { testAnswers(t) }
func TestRule_FO04_StaticHosts(t *testing.T)                { testAnswers(t) }

func testAnswers(t *testing.T) {
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			d := document(tt.status, tt.typ, tt.body)
			kind, warning, err := discovery.Classify(d)
			if kind != tt.classify || (warning != "") != tt.warns {
				t.Errorf("Classify = %q, warning %q; want %q, warning %v", kind, warning, tt.classify, tt.warns)
			}
			checkKind(t, "Classify", err, tt.fault)
			cat, err := discovery.ReadCatalog(d)
			checkKind(t, "ReadCatalog", err, tt.catalog)
			if tt.catalog == "" && tt.warns != (len(cat.Warnings) > 0) {
				t.Errorf("catalog warnings: %q", cat.Warnings)
			}
			c, err := discovery.ReadCard(d)
			checkKind(t, "ReadCard", err, tt.card)
			if tt.card == "" && tt.warns != (len(c.Warnings) > 0) {
				t.Errorf("card warnings: %q", c.Warnings)
			}
		})
	}
}

func checkKind(t *testing.T, what string, err error, want discovery.Kind) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	e, ok := errors.AsType[*discovery.Error](err)
	if !ok || e.Kind != want {
		t.Errorf("%s: %v; want %s", what, err, want)
		return
	}
	if !strings.Contains(e.Error(), somewhere) || strings.ContainsAny(e.Error(), "\n\x00") {
		t.Errorf("%s: the message is no sentence about %s: %q", what, somewhere, e)
	}
}

// FO-03: a web app that answers 200 for everything is told as what it is.
func TestRule_FO03_WebPageIsNoBadJSON(t *testing.T) {
	_, err := discovery.ReadCatalog(document(200, "application/json; charset=utf-8", aPage))
	if err == nil || !strings.Contains(err.Error(), "no catalog here: the address answered with a web page") {
		t.Errorf("message: %v", err)
	}
	_, err = discovery.ReadCard(document(200, "text/html", aPage))
	if err == nil || !strings.Contains(err.Error(), "no card here: the address answered with a web page") {
		t.Errorf("message: %v", err)
	}
	w := newWeb(map[string]answer{
		"https://shop.example.com/.well-known/ai-catalog.json": {typ: "application/json; charset=utf-8", body: aPage},
		"https://shop.example.com/c":                           page("").as("application/json"),
	})
	for _, in := range []string{"shop.example.com", "https://shop.example.com/c"} {
		if e := w.fails(t, in, discovery.WebPage); !strings.Contains(e.Error(), "no catalog here: the address answered with a web page") {
			t.Errorf("%s: %v", in, e)
		}
	}
}

// Stored bytes count like fresh ones after a 304; cut ones never do (D14).
func TestStoredAndTruncated(t *testing.T) {
	d := document(304, catalog.MediaType, aCatalog)
	d.NotModified = true
	if _, err := discovery.ReadCatalog(d); err != nil {
		t.Errorf("stored body: %v", err)
	}
	d = document(200, catalog.MediaType, aCatalog)
	d.Truncated = true
	_, _, err := discovery.Classify(d)
	_, err2 := discovery.ReadCatalog(d)
	if !errors.Is(err, discovery.TooLarge) || !errors.Is(err2, discovery.TooLarge) {
		t.Errorf("truncated: %v, %v", err, err2)
	}
}

// A stranger's header stays short and printable in a message.
func TestTypeInMessage(t *testing.T) {
	_, err := discovery.ReadCard(document(200, "x/\x1b[31m"+strings.Repeat("y", 2000), aCard))
	if err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("message: %q", err)
	}
}

// FO-06: what an old dialect lacks is listed as a whole; documents §9.
func TestRule_FO06_OtherDialect(t *testing.T) {
	const old = `{"serverInfo":{"name":"notes","version":"2.0.0"},"transport":{"type":"streamable-http","endpoint":"https://n.example.com/mcp"},"capabilities":{"tools":true}}`
	_, err := discovery.ReadCard(document(200, card.MediaType, old))
	faults, ok := errors.AsType[card.Errors](err)
	if !ok || len(faults) < 3 {
		t.Fatalf("faults: %v", err)
	}
	for _, missing := range []string{"$schema", "name", "version", "description"} {
		if !strings.Contains(err.Error(), missing) {
			t.Errorf("the refusal does not name %s: %v", missing, err)
		}
	}
	w := newWeb(map[string]answer{
		"https://n.example.com/.well-known/ai-catalog.json": jsonCatalog(lists("https://n.example.com/c")),
		"https://n.example.com/c":                           {typ: card.MediaType, body: old},
	})
	e := w.fails(t, "n.example.com", discovery.NoCards)
	if !errors.Is(e, discovery.InvalidCard) || w.saw("https://n.example.com/mcp") {
		t.Errorf("%v; asked %v", e, w.asked)
	}
}

func FuzzClassify(f *testing.F) {
	for _, tt := range answers {
		f.Add(tt.status, tt.typ, []byte(tt.body))
	}
	f.Fuzz(func(t *testing.T, status int, typ string, body []byte) {
		d := document(status, typ, string(body))
		kind, warning, err := discovery.Classify(d)
		switch {
		case err != nil:
			if e, ok := errors.AsType[*discovery.Error](err); !ok || e.Error() == "" || kind != "" || warning != "" {
				t.Fatalf("Classify = %q, %q, %#v", kind, warning, err)
			}
		case kind != discovery.WantCatalog && kind != discovery.WantCard && kind != discovery.WantPage:
			t.Fatalf("Classify = %q", kind)
		}
		// What can be read is classified as that.
		if _, err := discovery.ReadCatalog(d); err == nil && kind != discovery.WantCatalog {
			t.Errorf("a catalog is classified as %q", kind)
		} else if _, ok := errors.AsType[*discovery.Error](err); err != nil && !ok {
			t.Errorf("ReadCatalog: %T", err)
		}
		if _, err := discovery.ReadCard(d); err == nil && kind != discovery.WantCard && kind != discovery.WantCatalog {
			t.Errorf("a card is classified as %q", kind)
		} else if _, ok := errors.AsType[*discovery.Error](err); err != nil && !ok {
			t.Errorf("ReadCard: %T", err)
		}
	})
}
