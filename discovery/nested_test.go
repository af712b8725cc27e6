package discovery_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
)

// OB-118, D7, documents E3: nested catalogs count on the origin of their root.
func TestRule_OB118_NestedOnSameOrigin(t *testing.T) { testNestedElsewhere(t); testNested(t) }

func TestRule_D7_NestedEvidence(t *testing.T) {
	testNestedElsewhere(t)
	testNested(t)
	testDepth(t)
	testDocuments(t)
}

func testNested(t *testing.T) {
	a, b := origin+"/a.json", origin+"/b.json"
	w := newWeb(map[string]answer{known: jsonCatalog(nests(a)), a: jsonCatalog(nests("b.json"), nests(known)), b: jsonCatalog(lists(cardURL))})
	w.proves(t, subject(""), catalog.WellKnown, known, known, a, b)
	// The chain leads straight to the listing document.
	w = newWeb(map[string]answer{known: jsonCatalog(nests(a), nests(b)), a: jsonCatalog(), b: jsonCatalog(lists(cardURL))})
	w.proves(t, subject(""), catalog.WellKnown, known, known, b)
	// The origin is that of the asked root, whatever answered for it.
	www := "https://www.example.com/c.json"
	w = newWeb(map[string]answer{known: {to: www}, www: jsonCatalog(nests(a), nests("https://www.example.com/d.json")), a: jsonCatalog(lists(cardURL))})
	w.proves(t, subject(""), catalog.WellKnown, known, known, www, a)
}

func testNestedElsewhere(t *testing.T) {
	for _, where := range []string{other, "https://example.com/c.json", "https://apps.example.com:8443/c.json"} {
		w := newWeb(map[string]answer{known: jsonCatalog(nests(where)), where: jsonCatalog(lists(cardURL))})
		w.finds(t, subject(""), "well-known not_listed", "link-header no_pointer", "website no_pointer")
		if w.saw(where) {
			t.Errorf("%s was read", where)
		}
	}
}

// D7: four levels below the root, not five; what lies deeper is no disproof.
func testDepth(t *testing.T) {
	for depth, proven := range map[int]bool{4: true, 5: false} {
		pages := map[string]answer{}
		level := func(i int) string {
			if i == 0 {
				return known
			}
			return fmt.Sprintf("%s/level%d.json", origin, i)
		}
		for i := range depth {
			pages[level(i)] = jsonCatalog(nests(level(i + 1)))
		}
		pages[level(depth)] = jsonCatalog(lists(cardURL))
		w := newWeb(pages)
		c := w.confirm(t, subject(""))
		if (c.Evidence != nil) != proven {
			t.Errorf("at level %d: %+v", depth, c)
		}
		if !proven && (c.Findings[0].Status != discovery.Unreadable || w.saw(level(5))) {
			t.Errorf("at level %d: %+v", depth, c.Findings[0])
		}
	}
}

// D7: fifty documents in all, pages and failures included, each once.
func testDocuments(t *testing.T) {
	var many []string
	for i := range 60 {
		many = append(many, nests(fmt.Sprintf("%s/%d.json", origin, i)))
	}
	w := newWeb(map[string]answer{known: jsonCatalog(many...), site: page(link(other)), other: jsonCatalog()})
	for i := range 60 {
		w.pages[fmt.Sprintf("%s/%d.json", origin, i)] = jsonCatalog(many...)
	}
	w.finds(t, subject(site), "well-known unreadable", "link-header no_pointer", "website not_listed")
	if len(w.asked) != 50 {
		t.Errorf("%d documents were read", len(w.asked))
	}
	// The roots of all kinds come first: parts cannot hide them.
	w.pages[other] = jsonCatalog(lists(cardURL))
	if c := w.confirm(t, subject(site)); c.Evidence == nil || c.Evidence.Kind != catalog.Website {
		t.Errorf("evidence: %+v", c.Evidence)
	}
	// Among proofs the kinds keep their order.
	w.pages[origin+"/3.json"] = jsonCatalog(lists(cardURL))
	w.proves(t, subject(site), catalog.WellKnown, known, known, origin+"/3.json")
}

// OB-134: a part that could not be read makes a catalog unable to disprove, but
// not to prove.
func TestRule_OB134_PartlyReadNeverDisproves(t *testing.T) {
	a, b := origin+"/a.json", origin+"/b.json"
	w := newWeb(map[string]answer{known: jsonCatalog(nests(a), nests(b)), a: {status: 503}, b: jsonCatalog()})
	f := w.finds(t, subject(""), nothing...)
	if !errors.Is(f[0].Err, discovery.HTTPStatus) {
		t.Errorf("reason: %v", f[0].Err)
	}
	w.pages[b] = jsonCatalog(lists(cardURL))
	w.proves(t, subject(""), catalog.WellKnown, known, known, b)
	w.pages[b], w.pages[a] = jsonCatalog(), answer{err: discovery.ErrDeferred}
	w.finds(t, subject(""), "well-known deferred", "link-header no_pointer", "website no_pointer")
}

// D14, OB-137: no answer but a readable catalog disproves anything.
func TestRule_OB137_UnreadableIsNoEmptyCatalog(t *testing.T) {
	for kind, a := range map[discovery.Kind]answer{
		discovery.HTTPStatus:     {status: 410},
		discovery.WebPage:        page(""),
		discovery.WrongType:      jsonCatalog().as("image/png"),
		discovery.BadJSON:        {typ: catalog.MediaType, body: `{"specVersion":"1.0","entries":[`},
		discovery.InvalidCatalog: {typ: catalog.MediaType, body: `{"specVersion":"2.0","entries":[]}`},
		discovery.TooLarge:       {body: strings.Repeat(" ", 2<<20)},
	} {
		f := newWeb(map[string]answer{known: a}).finds(t, subject(""), nothing...)
		if !errors.Is(f[0].Err, kind) || f[0].CatalogURL != known || !slices.Equal(f[0].Chain, []string{known}) {
			t.Errorf("%s: %+v", kind, f[0])
		}
	}
}
