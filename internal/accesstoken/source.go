package accesstoken

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Times of a key set.
const (
	coolDown     = 30 * time.Second // between two fetches
	coolDownNone = 5 * time.Second  // the same while there are no keys at all
	refreshAfter = 10 * time.Minute // behind a request's back
	refreshFirst = time.Hour        // before a request goes on, if that can be
	fetchTimeout = 10 * time.Second
	patience     = 2 * time.Second // of a request that has keys, if old ones
)

// source is the key set of one issuer. It is fetched when it is needed, again
// when a token names a key that it does not have, and from time to time; one
// fetch at a time, and none within the cool-down, whatever strangers send. When
// a fetch fails the keys from before stay, and a set without any key that we can
// use counts as a fetch that failed: an issuer that withdraws a key publishes
// another one.
type source struct {
	issuer     string
	url        string // "" asks discovery
	discovery  *discovery
	client     *http.Client
	algorithms []string
	now        func() time.Time
	changed    func()
	log        *slog.Logger

	set atomic.Pointer[keySet]

	mu     sync.Mutex
	tried  time.Time // when the last fetch began
	failed bool      // whether it failed
	flight chan struct{}
}

type keySet struct {
	keys []key
	at   time.Time // when it was fetched
}

// fits gives the keys for a token: those of its kid, or without one the only
// key of its algorithm (J4). several reports that more than one would do.
func (s *keySet) fits(kid, alg string) (keys []key, several bool) {
	for i := range s.keys {
		if k := &s.keys[i]; k.signs(alg) && (kid == "" || k.id == kid) {
			keys = append(keys, *k)
		}
	}
	if kid == "" && len(keys) > 1 {
		return nil, true
	}
	return keys, false
}

// find gives keys to try. For errUnknownKey it tells when a fetch may change
// that.
func (s *source) find(ctx context.Context, kid, alg string) (keys []key, again time.Time, err error) {
	set := s.set.Load()
	switch age := s.age(set); {
	case set == nil:
		s.refresh(ctx, fetchTimeout)
		set = s.set.Load()
	case age > refreshFirst:
		s.refresh(ctx, patience)
		set = s.set.Load()
	case age > refreshAfter:
		s.refresh(ctx, 0)
	}
	if set != nil {
		keys, several := set.fits(kid, alg)
		if len(keys) > 0 {
			return keys, again, nil
		}
		if several {
			return nil, again, errNoKid
		}
		s.refresh(ctx, fetchTimeout)
		set = s.set.Load()
		if keys, _ := set.fits(kid, alg); len(keys) > 0 {
			return keys, again, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, again, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if set == nil || s.failed || s.flight != nil {
		// The key may well be there: nobody knows.
		return nil, again, fmt.Errorf("%w: the keys of %s cannot be read", ErrUnavailable, s.issuer)
	}
	return nil, s.tried.Add(coolDown), errUnknownKey
}

var errNoKid = invalid("it names no key, and several would do")

func (s *source) age(set *keySet) time.Duration {
	if set == nil {
		return 0
	}
	return s.now().Sub(set.at)
}

// refresh fetches the set unless that was tried a moment ago. It returns when
// the fetch has ended, or ctx, or after so long; 0 waits for nothing.
func (s *source) refresh(ctx context.Context, wait time.Duration) {
	s.mu.Lock()
	if s.flight == nil {
		pause := coolDown
		if s.set.Load() == nil {
			pause = coolDownNone
		}
		now := s.now()
		if !s.tried.IsZero() && now.Sub(s.tried) < pause {
			s.mu.Unlock()
			return
		}
		s.tried = now
		s.flight = make(chan struct{})
		go s.fly(context.WithoutCancel(ctx), now)
	}
	flight := s.flight
	s.mu.Unlock()
	if wait == 0 {
		return
	}
	enough := time.NewTimer(wait)
	defer enough.Stop()
	select {
	case <-flight:
	case <-enough.C:
	case <-ctx.Done():
	}
}

// fly fetches once. It does not belong to the request that began it: others
// wait for it too.
func (s *source) fly(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	keys, err := s.fetch(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "read an issuer's keys", "issuer", s.issuer, "error", err)
	} else {
		old := s.set.Swap(&keySet{keys: keys, at: now})
		if old != nil && !sameKeys(old.keys, keys) {
			s.changed()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err != nil
	close(s.flight)
	s.flight = nil
}

func (s *source) fetch(ctx context.Context) ([]key, error) {
	url := s.url
	if url == "" {
		var err error
		if url, err = s.discovery.address(ctx, "jwks_uri", func(e Endpoints) string { return e.JWKS }); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	body, err := exchange(s.client, r, maxSet)
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	s.client.CloseIdleConnections() // the next time is far away
	keys, err := parseSet(body, s.algorithms)
	if err == nil && len(keys) == 0 {
		// Far more often a fault of the issuer than its will, and a set that
		// verifies nothing would sign every user out.
		err = errors.New("the key set has no key that can be used")
	}
	return keys, err
}

// exchange sends a request and gives the body of a 200, of at most so many
// octets.
func exchange(client *http.Client, r *http.Request, most int64) ([]byte, error) {
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing more is read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > most {
		return nil, fmt.Errorf("the answer is larger than %d bytes", most)
	}
	return body, nil
}
