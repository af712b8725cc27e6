package robots_test

import (
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/robots"
)

// noindex runs header lines through the reader.
func noindex(t *testing.T, want bool, lines ...string) {
	t.Helper()
	if tag := robots.ParseTag(lines, robots.Token); tag.NoIndexAt(noon) != want {
		t.Errorf("%q: noindex = %t, want %t (%+v)", lines, !want, want, tag)
	}
}

// X1: each line is a list of its own; a name covers what follows it.
func TestRule_CrawlerX1_NamesAndLines(t *testing.T) {
	noindex(t, true, "otherbot: nofollow, OpenBot: noindex")
	noindex(t, false, "otherbot: noindex, nofollow")
	noindex(t, true, "otherbot: nofollow", "noindex")
	noindex(t, true, "*: noindex")
	noindex(t, true, "OpenBot/1.0: noindex")
	noindex(t, true, "openbot 1.0: noindex")
	noindex(t, false, "OpenBots: noindex")
	noindex(t, false, "Open: noindex")
	noindex(t, false, "360Spider: noindex")
	noindex(t, false, "otherbot: openbots: noindex")
}

// X2: general and own rules add up; whole words.
func TestRule_CrawlerX2_StricterWins(t *testing.T) {
	noindex(t, true, "all", "OpenBot: noindex")
	noindex(t, true, "noindex", "OpenBot: all")
	noindex(t, true, "none")
	noindex(t, true, "noindex;")
	noindex(t, true, ",,noindex,,")
	noindex(t, false, "noindexed, no-index, no index, xnoindex")
	noindex(t, false)
}

// X3: rules with values are no names; dates.
func TestRule_CrawlerX3_ValuesAndDates(t *testing.T) {
	noindex(t, true, "max-snippet: 20, max-image-preview: large, max-video-preview: -1, noindex")
	noindex(t, true, "unavailable_after: Thu, 25 Jun 2026 15:00:00 GMT, nofollow")
	noindex(t, false, "unavailable_after: 25 Jun 2030 15:00:00 GMT")
	tag := robots.ParseTag([]string{"unavailable_after: 25 Jun 2030 15:00:00 EST", "unavailable_after: 26 Jun 2030 15:00:00 GMT"}, robots.Token)
	if want := time.Date(2030, 6, 25, 20, 0, 0, 0, time.UTC); !tag.UnavailableAfter.Equal(want) {
		t.Errorf("UnavailableAfter = %v, want %v", tag.UnavailableAfter, want)
	}
	// A kept date passes between two visits.
	if tag.NoIndexAt(tag.UnavailableAfter.Add(-time.Second)) || !tag.NoIndexAt(tag.UnavailableAfter) {
		t.Error("the date does not decide")
	}
}

// OB-119, OB-113: what of the header binds us.
func xRobotsTag(t *testing.T) {
	t.Helper()
	noindex(t, true, "nofollow", "NoIndex")
	noindex(t, true, "None")
	noindex(t, true, "otherbot: all, OpenBot: noindex")
	noindex(t, false, "otherbot: noindex", "surprise, noindexes")
	noindex(t, true, "unavailable_after: 2026-01-01")
}

func TestRule_OB119_XRobotsTag(t *testing.T) { xRobotsTag(t) }

// OB-113: noindex is the publisher's opt-out, and only that header word is.
func TestRule_OB113_NoIndexOptsOut(t *testing.T) {
	noindex(t, true, "noindex")
	noindex(t, false, "index, nofollow, nosnippet")
}

// U2: one name in robots.txt and in X-Robots-Tag.
func TestRule_CrawlerU2_OneToken(t *testing.T) {
	if robots.Token != "OpenBot" {
		t.Errorf("the token is %q", robots.Token)
	}
	noindex(t, true, "OpenBot: noindex")
	match(t, "User-agent: OpenBot\nDisallow: /a\n", map[string]bool{"/a": false, "/b": true})
}
