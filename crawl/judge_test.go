package crawl

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/index"
)

const (
	cardURL = "https://apps.example.com/card"
	catURL  = "https://apps.example.com/.well-known/ai-catalog.json"
	linkURL = "https://lists.example.net/c.json"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func entryIn(state index.State, since time.Duration) *index.Entry {
	e := &index.Entry{
		ID: index.ID(cardURL), CardURL: cardURL, FinalURL: cardURL, Document: []byte("{}"), Hash: "h", Name: "com.example/a", Version: "1",
		Evidence: &catalog.Evidence{Kind: catalog.WellKnown, CatalogURL: catURL}, State: state,
		FirstSeen: noon.Add(-200 * day), UpdatedAt: noon.Add(-100 * day),
	}
	if state == index.Stale || state == index.Hidden {
		e.StaleSince, e.Reason = noon.Add(-since), index.ReasonUnconfirmed
	}
	if state == index.Removed {
		e.Evidence, e.Document = nil, nil
	}
	return e
}

func proven(kind catalog.Kind, url string) *discovery.Confirmation {
	return &discovery.Confirmation{
		Evidence: &catalog.Evidence{Kind: kind, CatalogURL: url},
		Findings: []discovery.Finding{{Kind: kind, Status: discovery.Proven, CatalogURL: url}},
	}
}

func findings(f ...discovery.Finding) *discovery.Confirmation {
	return &discovery.Confirmation{Findings: f}
}

func finding(status discovery.Status, url string) discovery.Finding {
	f := discovery.Finding{Kind: catalog.WellKnown, Status: status, CatalogURL: url}
	if url == linkURL {
		f.Kind = catalog.LinkHeader
	}
	switch status {
	case discovery.Unreadable:
		f.Err = errors.New("it answered 500")
	case discovery.Deferred:
		f.Err = discovery.ErrDeferred
	}
	return f
}

// TestJudge is the table of OB-133, a line a case.
func TestJudge(t *testing.T) {
	noindexed := finding(discovery.Unreadable, catURL)
	noindexed.Err = errNoIndex
	for _, tt := range []struct {
		name string
		in   check
		want string // outcome state reason; - for no entry written
	}{
		{"lead proven", check{conf: proven(catalog.WellKnown, catURL)}, "listed listed"},
		{"listed, proven again", check{prev: entryIn(index.Listed, 0), conf: proven(catalog.WellKnown, catURL)}, "unchanged listed"},
		{"evidence of another kind", check{prev: entryIn(index.Listed, 0), conf: proven(catalog.LinkHeader, linkURL)}, "listed listed"},
		{"stale, proven again", check{prev: entryIn(index.Stale, day), conf: proven(catalog.WellKnown, catURL)}, "listed listed"},
		{"hidden, proven again", check{prev: entryIn(index.Hidden, 40*day), conf: proven(catalog.WellKnown, catURL)}, "listed listed"},
		{"tombstone, proven again", check{prev: entryIn(index.Removed, 0), conf: proven(catalog.WellKnown, catURL)}, "listed listed"},
		{"blocked, proven", check{prev: entryIn(index.Blocked, 0), conf: proven(catalog.WellKnown, catURL)}, "unchanged -"},

		{"lead not listed", check{conf: findings(finding(discovery.NotListed, catURL))}, "unconfirmed -"},
		{"delisted", check{prev: entryIn(index.Listed, 0), conf: findings(finding(discovery.NotListed, catURL))}, "removed removed delisted"},
		{"delisted while stale", check{prev: entryIn(index.Stale, day), conf: findings(finding(discovery.NotListed, catURL))}, "removed removed delisted"},
		{"delisted, other kind unreadable", check{prev: entryIn(index.Listed, 0), conf: findings(finding(discovery.NotListed, catURL), finding(discovery.Unreadable, linkURL))}, "removed removed delisted"},
		{"delisted, other kind deferred", check{prev: entryIn(index.Listed, 0), conf: findings(finding(discovery.NotListed, catURL), finding(discovery.Deferred, linkURL))}, "waiting -"},
		{"its catalog unreadable", check{prev: entryIn(index.Listed, 0), conf: findings(finding(discovery.Unreadable, catURL))}, "stale stale unconfirmed"},
		{"its catalog unreadable, another does not list", check{prev: entryIn(index.Listed, 0), conf: findings(finding(discovery.Unreadable, catURL), finding(discovery.NotListed, linkURL))}, "stale stale unconfirmed"},
		{"pointer gone, another does not list", check{prev: entryIn(index.Listed, 0), conf: findings(finding(discovery.NotListed, linkURL))}, "stale stale unconfirmed"},
		{"its catalog says noindex", check{prev: entryIn(index.Listed, 0), conf: findings(noindexed)}, "removed removed noindex"},

		{"29 days stale", check{prev: entryIn(index.Stale, 30*day-time.Second), conf: findings(finding(discovery.Unreadable, catURL))}, "unconfirmed stale unconfirmed"},
		{"30 days stale", check{prev: entryIn(index.Stale, 30*day), conf: findings(finding(discovery.Unreadable, catURL))}, "hidden hidden unconfirmed"},
		{"just under 90 days", check{prev: entryIn(index.Hidden, 90*day-time.Second), conf: findings(finding(discovery.Unreadable, catURL))}, "unconfirmed hidden unconfirmed"},
		{"90 days", check{prev: entryIn(index.Hidden, 90*day), conf: findings(finding(discovery.Unreadable, catURL))}, "removed removed stale_90_days"},
		{"90 days, deferred", check{prev: entryIn(index.Hidden, 90*day), conf: findings(finding(discovery.Deferred, catURL))}, "removed removed stale_90_days"},
		{"waiting for a week", check{prev: entryIn(index.Listed, 0), waitSince: noon.Add(-7 * day), conf: findings(finding(discovery.Deferred, catURL))}, "stale stale unconfirmed"},
		{"lead waiting for a month", check{waitSince: noon.Add(-30 * day), waitsFor: linkURL}, "dropped -"},
		{"redirect target not read", check{prev: entryIn(index.Listed, 0), waitsFor: linkURL}, "waiting -"},

		{"noindex", check{prev: entryIn(index.Listed, 0), fault: index.ReasonNoIndex}, "removed removed noindex"},
		{"noindex on a lead", check{fault: index.ReasonNoIndex}, "noindex -"},
		{"robots refuse", check{prev: entryIn(index.Hidden, 31*day), fault: index.ReasonDisallowed}, "removed removed robots_disallow"},
		{"robots refuse a lead", check{fault: index.ReasonDisallowed}, "disallowed -"},
		{"gone once", check{prev: entryIn(index.Listed, 0), fault: index.ReasonGone}, "stale stale card_gone"},
		{"gone twice, too near", check{prev: entryIn(index.Stale, day), fault: index.ReasonGone, wasFault: index.ReasonGone, faultSince: noon.Add(-day + time.Second)}, "gone stale card_gone"},
		{"gone twice, a day apart", check{prev: entryIn(index.Stale, day), fault: index.ReasonGone, wasFault: index.ReasonGone, faultSince: noon.Add(-day)}, "removed removed card_gone"},
		{"invalid after gone", check{prev: entryIn(index.Stale, day), fault: index.ReasonInvalid, wasFault: index.ReasonGone, faultSince: noon.Add(-2 * day)}, "invalid stale card_invalid"},
		{"invalid twice, a day apart", check{prev: entryIn(index.Stale, day), fault: index.ReasonInvalid, wasFault: index.ReasonInvalid, faultSince: noon.Add(-day)}, "removed removed card_invalid"},
		{"unreachable", check{prev: entryIn(index.Listed, 0), fault: index.ReasonUnreadable}, "stale stale card_unreachable"},
		{"unreachable for long", check{prev: entryIn(index.Stale, 89*day), fault: index.ReasonUnreadable}, "hidden hidden card_unreachable"},

		{"third failure, too soon", check{fails: 3, firstSeen: noon.Add(-7*day + time.Second), fault: index.ReasonUnreadable}, "unreachable -"},
		{"second failure", check{fails: 2, firstSeen: noon.Add(-8 * day), fault: index.ReasonUnreadable}, "unreachable -"},
		{"third failure over a week", check{fails: 3, firstSeen: noon.Add(-7 * day), fault: index.ReasonUnreadable}, "dropped -"},
		{"third failure, still needed", check{fails: 3, firstSeen: noon.Add(-7 * day), fault: index.ReasonUnreadable, needed: true}, "unreachable -"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.in
			in.now, in.seen, in.url, in.text = noon, noon, cardURL, "something is wrong with it"
			in.read = &index.Entry{ID: index.ID(cardURL), CardURL: cardURL, FinalURL: cardURL, Document: []byte("{}"), Hash: "h"}
			if in.firstSeen.IsZero() {
				in.firstSeen = noon
			}
			v := judge(&in)
			got := string(v.code) + " -"
			if v.entry != nil {
				got = strings.TrimSpace(string(v.code) + " " + string(v.entry.State) + " " + string(v.entry.Reason))
			}
			if got != tt.want {
				t.Fatalf("got %q, want %q (%s)", got, tt.want, v.sentence)
			}
			if v.sentence == "" || !strings.HasSuffix(v.sentence, ".") {
				t.Errorf("no sentence: %q", v.sentence)
			}
			if v.drop != (v.code == index.OutcomeDropped) {
				t.Errorf("drop is %v with outcome %s", v.drop, v.code)
			}
			if e := v.entry; e != nil {
				if e.State == index.Removed && (e.Document != nil || e.Evidence != nil || e.DisplayName != "") {
					t.Errorf("a tombstone keeps texts: %+v", e)
				}
				if e.State != index.Removed && e.Evidence == nil {
					t.Errorf("an entry without evidence: %+v", e)
				}
				if (e.State == index.Stale || e.State == index.Hidden) == e.StaleSince.IsZero() {
					t.Errorf("state %s since %v", e.State, e.StaleSince)
				}
				if e.State == index.Stale && v.edge.After(e.StaleSince.Add(hideAfter)) || e.State == index.Hidden && !v.edge.Equal(e.StaleSince.Add(dropAfter)) {
					t.Errorf("state %s since %v has its edge at %v", e.State, e.StaleSince, v.edge)
				}
			}
		})
	}
}
