package crawl

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	day = 24 * time.Hour

	firstInterval = day       // between two checks of a document that says nothing itself (P5, D17)
	minInterval   = time.Hour // however short its max-age
	maxInterval   = 7 * day   // however long its max-age, and however seldom it changes

	minGap        = time.Second // between two requests of one origin (P1, D16)
	maxRetryAfter = 7 * day     // the longest Retry-After that is believed (P2)
	tooManyDelay  = 10 * time.Minute

	crowdWait  = 10 * time.Second // for a place at an address that many hosts share (P3), or on another host
	crowdDelay = 30 * time.Second // before a host is tried again that got none

	hideAfter = 30 * day // a stale entry (D14)
	dropAfter = 90 * day

	apart       = day              // between the two findings that remove a card (D15)
	leadFails   = 3                // failed checks after which a lead is given up, OB-130,
	leadTime    = 7 * day          // once they span this time
	pointerTime = 30 * day         // the same for what only led to cards
	leadPause   = 7 * day          // before a lead that was given up is followed again
	askedAgain  = 10 * time.Minute // a person's wish makes us ask again no sooner (OB-135)
	overdueFor  = day              // a stored document this late is no evidence until it is read again
	waitingFor  = 7 * day          // an entry whose evidence is not read for so long is stale
	fullGet     = 30 * day         // between two GETs without validators (C7)
	robotsRetry = 30 * time.Minute // after robots.txt could not be read
)

// failureDelays is how long a document that cannot be used is left alone (P5).
var failureDelays = [...]time.Duration{time.Hour, 4 * time.Hour, day, 3 * day, 7 * day}

// nextInterval is the time until the next check of a document that can be
// used. last is the interval before, 0 for a first check; age is its max-age,
// negative for none.
//
// Unchanged documents are asked for less and less often, changed ones more
// often. A long max-age stretches the interval: nobody need ask while a copy is
// fresh. A short one shortens it when there was news, from where it grows again.
func nextInterval(last, age time.Duration, changed bool) time.Duration {
	next := firstInterval
	switch {
	case last == 0 || changed:
		if last > 0 {
			next = last * 8 / 10
		}
		if age >= 0 {
			next = min(next, age)
		}
	default:
		next = last * 14 / 10
	}
	return min(max(next, age, minInterval), maxInterval)
}

// failureDelay is the time until the next check after so many failures in a row.
func failureDelay(fails int) time.Duration {
	return failureDelays[min(max(fails, 1), len(failureDelays))-1]
}

// jitter spreads d by a tenth either way; r is from 0 to 1.
func jitter(d time.Duration, r float64) time.Duration {
	return d + time.Duration((r-0.5)*0.2*float64(d))
}

// waitDelay is the time until a document is looked at again whose judgement
// waits for another document since the given time. The other document's news
// wakes it earlier.
func waitDelay(since, now time.Time) time.Duration {
	return min(max(now.Sub(since), askedAgain), day)
}

// gapAfter is the pause after a request that took so long (P1, R8).
func gapAfter(took, crawlDelay time.Duration) time.Duration {
	return max(minGap, 5*took, crawlDelay)
}

// retryAfter reads a Retry-After header: seconds or a date. 0 is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if d, ok := seconds(value); ok {
		return min(d, maxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// maxAge reads max-age from Cache-Control; negative when there is none.
func maxAge(cacheControl string) time.Duration {
	for directive := range strings.SplitSeq(cacheControl, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "max-age") {
			continue
		}
		if d, ok := seconds(strings.Trim(strings.TrimSpace(value), `"`)); ok {
			return d
		}
	}
	return -1
}

// seconds reads a number of seconds; one too large to matter counts as a year.
func seconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	const most = 365 * 24 * 60 * 60
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > most {
		n = most
	}
	return time.Duration(n) * time.Second, true
}
