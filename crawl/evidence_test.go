package crawl

import (
	"testing"
	"time"
)

// OB-110: listing a card in one's own catalog is consent; a copy in somebody
// else's catalog is only a lead.
func TestRule_OB110_ForeignCopyIsALead(t *testing.T) {
	rule(t, func(_ *testing.T, w *world) { foreignCopy(w) })
}

func foreignCopy(w *world) {
	w.page("https://lists.example.net/.well-known/ai-catalog.json", "", catalogJSON(cardURL))
	w.page(cardURL, "", cardJSON("com.example/notes", ""))
	w.add("lists.example.net")
	w.settle()
	w.wantState(cardURL, "-")
	if got := w.outcome(cardURL); got != "unconfirmed" {
		w.t.Fatalf("outcome %s", got)
	}
	w.wantSentence(cardURL, "no document of its publisher lists exactly "+cardURL, "list it in the catalog at "+catURL)
	w.page(catURL, "", catalogJSON(cardURL))
	w.until(6 * time.Hour)
	w.wantState(cardURL, "listed")
}

// OB-112, OB-117, D34: each kind of evidence alone proves a card.
func TestRule_OB112_EachKindOfEvidence(t *testing.T) { once(t, "evidenceKinds", evidenceKinds) }

func TestRule_OB117_MutualEvidence(t *testing.T) {
	once(t, "evidenceKinds", evidenceKinds)
	once(t, "notEvidence", notEvidence)
}

func TestRule_D34_EvidenceIsMutual(t *testing.T) {
	once(t, "evidenceKinds", evidenceKinds)
	once(t, "notEvidence", notEvidence)
}
func TestRule_DocumentsE1_ThreeKinds(t *testing.T) { once(t, "evidenceKinds", evidenceKinds) }
func TestRule_OBT19_Evidence(t *testing.T) {
	once(t, "evidenceKinds", evidenceKinds)
	once(t, "notEvidence", notEvidence)
}

func evidenceKinds(t *testing.T) {
	for _, tt := range []struct {
		kind  string
		setUp func(w *world)
	}{
		{"well-known", func(w *world) {
			w.page(catURL, "", catalogJSON(cardURL))
			w.page(cardURL, "", cardJSON("com.example/notes", ""))
		}},
		{"well-known", func(w *world) { // redirected to another host, it still speaks for this one
			w.page(catURL, "302 https://www.example.net/cat.json", "")
			w.page("https://www.example.net/cat.json", "", catalogJSON(cardURL))
			w.page(cardURL, "", cardJSON("com.example/notes", ""))
		}},
		{"link-header", func(w *world) {
			w.page(cardURL, `Link: </c.json>; rel="ai-catalog"`, cardJSON("com.example/notes", ""))
			w.page(appsHost+"/c.json", "", catalogJSON(cardURL))
		}},
		{"website", func(w *world) {
			w.page(cardURL, "", cardJSON("com.example/notes", `, "websiteUrl": "https://apps.example.com/about"`))
			w.page(appsHost+"/about", "", `<html><head><link rel=ai-catalog href=/c.json></head></html>`)
			w.page(appsHost+"/c.json", "", catalogJSON(cardURL))
		}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				tt.setUp(w)
				w.add(cardURL)
				w.settle()
				w.wantState(cardURL, "listed")
				e := w.entry(cardURL)
				if string(e.Evidence.Kind) != tt.kind || len(e.Evidence.Chain) == 0 || e.Evidence.CheckedAt.IsZero() {
					t.Errorf("evidence %+v", e.Evidence)
				}
			})
		})
	}
}

// notEvidence is OB-117, OB-118, D3, D6: what proves nothing.
func notEvidence(t *testing.T) {
	for name, setUp := range map[string]func(w *world){
		"anchor": func(w *world) {
			w.page(cardURL, `Link: </c.json>; rel="ai-catalog"; anchor="/other"`, cardJSON("com.example/notes", ""))
			w.page(appsHost+"/c.json", "", catalogJSON(cardURL))
		},
		"body link": func(w *world) {
			w.page(cardURL, "", cardJSON("com.example/notes", `, "websiteUrl": "https://apps.example.com/about"`))
			w.page(appsHost+"/about", "", `<html><head></head><body><link rel=ai-catalog href=/c.json></body></html>`)
			w.page(appsHost+"/c.json", "", catalogJSON(cardURL))
		},
		"ard.json": func(w *world) {
			w.page(cardURL, "", cardJSON("com.example/notes", ""))
			w.page(appsHost+"/.well-known/ard.json", "", catalogJSON(cardURL))
		},
		"nested on another origin": func(w *world) {
			w.page(cardURL, "", cardJSON("com.example/notes", ""))
			w.page(catURL, "", `{"specVersion": "1.0", "entries": [{"identifier": "n", "type": "application/ai-catalog+json", "url": "https://other.example.net/c.json"}]}`)
			w.page("https://other.example.net/c.json", "", catalogJSON(cardURL))
		},
		"target of a redirected card": func(w *world) {
			// The target's own catalog lists the target, not the asked card.
			w.page(cardURL, "302 https://other.example.net/card", "")
			w.page("https://other.example.net/card", "", cardJSON("com.example/notes", ""))
			w.page("https://other.example.net/.well-known/ai-catalog.json", "", catalogJSON("https://other.example.net/card"))
		},
		"another form of the URL": func(w *world) { // OB-116
			w.page(cardURL, "", cardJSON("com.example/notes", ""))
			w.page(catURL, "", catalogJSON(cardURL+"/", cardURL+"?a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				setUp(w)
				w.add(cardURL)
				w.until(30 * time.Hour)
				w.wantState(cardURL, "-")
			})
		})
	}
}

func TestRule_OB118_NestedOnOneOrigin(t *testing.T) { once(t, "notEvidence", notEvidence) }
func TestRule_DocumentsE3_WhatLendsNothing(t *testing.T) {
	once(t, "notEvidence", notEvidence)
}

// OB-116, documents E2: a match is equality in normal form.
func TestRule_OB116_NormalForm(t *testing.T) { once(t, "normalForm", normalForm) }

func TestRule_DocumentsE2_NormalForm(t *testing.T) {
	once(t, "normalForm", normalForm)
	t.Run("foreign copy", func(t *testing.T) { rule(t, func(_ *testing.T, w *world) { foreignCopy(w) }) })
}

func normalForm(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON("HTTPS://Apps.Example.COM.:443/x/../card#top"))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.add(cardURL)
		w.settle()
		w.wantState(cardURL, "listed")
	})
}

// OB-120: noindex on a catalog or on the website page.
func TestRule_OB120_NoIndexOnEvidence(t *testing.T) {
	t.Run("catalog", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.page(catURL, "X-Robots-Tag: noindex", catalogJSON(cardURL))
			w.page(cardURL, "", cardJSON("com.example/notes", ""))
			w.add("apps.example.com", cardURL)
			w.settle()
			w.wantState(cardURL, "-")
			w.wantSentence(cardURL, "X-Robots-Tag")
			w.page(catURL, "", catalogJSON(cardURL))
			w.until(10 * day)
			w.wantState(cardURL, "listed")
		})
	})
	t.Run("catalog, later", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.published()
			w.page(catURL, "X-Robots-Tag: noindex", catalogJSON(cardURL))
			w.until(30 * time.Hour)
			w.wantState(cardURL, "removed noindex")
		})
	})
	t.Run("page", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.page(cardURL, "", cardJSON("com.example/notes", `, "websiteUrl": "https://apps.example.com/about"`))
			w.page(appsHost+"/about", "X-Robots-Tag: noindex", `<html><head><link rel=ai-catalog href=/c.json></head></html>`)
			w.page(appsHost+"/c.json", "", catalogJSON(cardURL))
			w.add(cardURL)
			w.until(6 * time.Hour)
			w.wantState(cardURL, "-")
		})
	})
}
