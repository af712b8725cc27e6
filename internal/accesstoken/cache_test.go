package accesstoken

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestCacheBounds(t *testing.T) {
	c := newCache(maxKept)
	now := time.Unix(1, 0)
	hot := sha256.Sum256([]byte("hot"))
	c.put(hot, &Result{Subject: "hot"}, now.Add(time.Hour), epoch{})
	for i := range 3 * maxKept {
		c.put(sha256.Sum256(fmt.Append(nil, i)), &Result{}, now.Add(time.Hour), epoch{})
		if c.get(hot, now) == nil {
			t.Fatalf("an entry in use was given up after %d", i)
		}
	}
	if n := c.len(); n > maxKept || n < maxKept-shards {
		t.Errorf("%d entries", n)
	}
}

func TestCacheEnds(t *testing.T) {
	c := newCache(shards)
	id, now := sha256.Sum256(nil), time.Unix(100, 0)
	var changes atomic.Uint64
	c.put(id, &Result{Subject: "a"}, now.Add(time.Second), epoch{&changes, 0})
	if c.get(id, now) == nil {
		t.Error("not kept")
	}
	if c.get(id, now.Add(time.Second)) != nil {
		t.Error("given after its end")
	}
	if changes.Add(1); c.get(id, now) != nil {
		t.Error("given in another epoch")
	}
	if !c.had(id) || c.had(sha256.Sum256([]byte("other"))) {
		t.Error("what was kept is not known")
	}
	c.put(id, &Result{Subject: "b"}, now.Add(time.Second), epoch{&changes, 1})
	if r := c.get(id, now); r == nil || r.Subject != "b" || c.len() != 1 {
		t.Error("not replaced")
	}
}

func TestCacheTogether(t *testing.T) {
	c := newCache(64)
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			for i := range 2000 {
				id := sha256.Sum256(fmt.Append(nil, i%100, g%2))
				if c.get(id, time.Unix(0, 0)) == nil {
					c.put(id, &Result{}, time.Unix(1, 0), epoch{})
				}
			}
		})
	}
	wait.Wait()
	if n := c.len(); n > 64 {
		t.Errorf("%d entries", n)
	}
}

// A kept answer never outlives its token, nor five minutes.
func TestKeptAnswers(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(nil)
	short := is.token(member{"exp": is.clock.Load() + 10})
	check(t, v, short, nil)
	is.pass(39 * time.Second)
	check(t, v, short, nil)
	is.pass(time.Second)
	check(t, v, short, errExpired)

	long := is.token(member{"exp": is.clock.Load() + 10_000})
	first := check(t, v, long, nil)
	if check(t, v, long, nil) != first {
		t.Error("judged twice")
	}
	is.pass(keepJWT)
	if check(t, v, long, nil) == first {
		t.Error("kept for more than five minutes")
	}
}

func BenchmarkKept(b *testing.B) {
	is := newIssuer(b)
	v := is.verifier(nil)
	token := is.token(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJudged(b *testing.B) {
	is := newIssuer(b)
	v := is.verifier(nil)
	token := is.token(nil)
	b.ReportAllocs()
	for b.Loop() {
		v.issuers[0].changes.Add(1)
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

// Headers that were read are kept for good tokens only, and a kept one says
// nothing about the signature of the next.
func TestKeptHeaders(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(nil)
	check(t, v, is.token(nil), nil)
	for i := range 3 {
		check(t, v, is.tokenWith(member{"kid": fmt.Sprint("no", i)}, nil), errUnknownKey)
		check(t, v, is.tokenWith(member{"n": i}, member{"aud": "x"}), errAudience)
	}
	if n := len(v.headers.all); n != 1 {
		t.Fatalf("%d headers are kept", n)
	}
	a, b := is.token(nil), is.token(member{"sub": "bob"})
	check(t, v, a[:strings.LastIndexByte(a, '.')]+b[strings.LastIndexByte(b, '.'):], errSignature)
	if r := check(t, v, b, nil); r.Subject != "bob" {
		t.Errorf("subject %s", r.Subject)
	}
	check(t, v, is.tokenWith(member{"typ": "JWT"}, nil), errTyp)
	for i := range 2 * maxHeaders {
		check(t, v, is.tokenWith(member{"n": i}, nil), nil)
	}
	if n := len(v.headers.all); n > maxHeaders {
		t.Errorf("%d headers are kept", n)
	}
}
