package crawl

import (
	"net/http"
	"testing"
	"time"
)

func TestNextInterval(t *testing.T) {
	for _, tt := range []struct {
		name      string
		last, age time.Duration
		changed   bool
		want      time.Duration
	}{
		{"first", 0, -1, true, 24 * time.Hour},
		{"first, short max-age", 0, 2 * time.Hour, true, 2 * time.Hour},
		{"first, tiny max-age", 0, 0, true, time.Hour},
		{"first, long max-age", 0, 3 * day, true, 3 * day},
		{"first, very long max-age", 0, 365 * day, true, 7 * day},
		{"unchanged", 24 * time.Hour, -1, false, 24 * time.Hour * 14 / 10},
		{"unchanged to the end", 6 * day, -1, false, 7 * day},
		{"changed", 24 * time.Hour, -1, true, 24 * time.Hour * 8 / 10},
		{"changed to the end", time.Hour, -1, true, time.Hour},
		{"changed, short max-age", day, time.Hour, true, time.Hour},
		{"unchanged, short max-age grows", 10 * time.Hour, time.Hour, false, 14 * time.Hour},
		{"unchanged, long max-age stretches", day, 4 * day, false, 4 * day},
	} {
		if got := nextInterval(tt.last, tt.age, tt.changed); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestFailureDelay(t *testing.T) {
	want := []time.Duration{time.Hour, time.Hour, 4 * time.Hour, day, 3 * day, 7 * day, 7 * day}
	for fails, d := range want {
		if got := failureDelay(fails); got != d {
			t.Errorf("%d failures: got %s, want %s", fails, got, d)
		}
	}
	if failureDelay(1<<40) != 7*day {
		t.Error("many failures")
	}
}

func TestJitter(t *testing.T) {
	for r, want := range map[float64]time.Duration{0: 90 * time.Minute, 0.5: 100 * time.Minute, 1: 110 * time.Minute} {
		if got := jitter(100*time.Minute, r).Round(time.Second); got != want {
			t.Errorf("%v: got %s, want %s", r, got, want)
		}
	}
}

func TestGapAfter(t *testing.T) {
	for _, tt := range []struct{ took, delay, want time.Duration }{
		{0, 0, time.Second},
		{100 * time.Millisecond, 0, time.Second},
		{2 * time.Second, 0, 10 * time.Second},
		{2 * time.Second, 5 * time.Second, 10 * time.Second},
		{time.Second, 300 * time.Second, 300 * time.Second},
	} {
		if got := gapAfter(tt.took, tt.delay); got != tt.want {
			t.Errorf("took %s, Crawl-delay %s: got %s, want %s", tt.took, tt.delay, got, tt.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"":                              0,
		"120":                           2 * time.Minute,
		" 7 ":                           7 * time.Second,
		"-5":                            0,
		"1.5":                           0,
		"soon":                          0,
		"99999999999999999999999999999": 7 * day,
		"Mon, 30 Nov 2026 13:00:00 GMT": time.Hour,
		"Mon, 30 Nov 2026 11:00:00 GMT": 0,
		"Wed, 30 Nov 2050 11:00:00 GMT": 7 * day,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, noon); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func TestMaxAge(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"":                               -1,
		"no-cache":                       -1,
		"max-age=60":                     time.Minute,
		"public, Max-Age = \"3600\"":     time.Hour,
		"s-maxage=5, max-age=7":          7 * time.Second,
		"max-age=-1":                     -1,
		"max-age=1e9":                    -1,
		"max-age=9999999999999999999999": 365 * day,
	} {
		if got := maxAge(value); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add(int64(0), int64(0), true, 3, "max-age=5", "120")
	f.Fuzz(func(t *testing.T, last, took int64, changed bool, fails int, cacheControl, retry string) {
		if d := nextInterval(time.Duration(max(last, 0))%maxInterval, maxAge(cacheControl), changed); d < minInterval || d > maxInterval {
			t.Errorf("interval %s", d)
		}
		if d := retryAfter(http.Header{"Retry-After": {retry}}, noon); d < 0 || d > maxRetryAfter {
			t.Errorf("Retry-After %s", d)
		}
		if d := failureDelay(fails); d < time.Hour || d > 7*day {
			t.Errorf("failure delay %s", d)
		}
		if d := gapAfter(time.Duration(max(took, 0))%time.Minute, 0); d < minGap {
			t.Errorf("gap %s", d)
		}
	})
}
