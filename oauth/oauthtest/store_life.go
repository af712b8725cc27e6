package oauthtest

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
)

// This file holds the parts of ExerciseStore about what ends a connection, and
// about several callers at a time.

func exerciseBinding(t *storeTest) {
	for what, other := range others(oauth.Connection{ID: "notes", User: "ada", CardURL: "https://apps.example.com/notes/card", Endpoint: "https://apps.example.com/mcp/notes"}) {
		other.ID = "notes-" + what
		c := t.add("notes")
		c.ID = other.ID
		t.ok(t.one.Add(t.Context(), c))
		version := t.put(c, 0, "access")
		t.is("attempt for another "+what, t.two.AddAttempt(t.Context(), sampleAttempt(other, "s-"+what)), oauth.ErrGone)
		_, err := t.two.TakeAttempt(t.Context(), "s-"+what)
		t.is("attempt for another "+what, err, oauth.ErrNotFound)
		tok := sampleTokens(other, "planted")
		tok.Version = version
		_, err = t.two.PutTokens(t.Context(), tok)
		t.is("put for another "+what, err, oauth.ErrGone)
		if ok, err := t.two.Lease(t.Context(), other, "p2", time.Minute); ok || !errors.Is(err, oauth.ErrGone) {
			t.Errorf("lease for another %s: %v, %v", what, ok, err)
		}
		got, err := t.two.Tokens(t.Context(), c)
		t.ok(err)
		if got.Access != "access" {
			t.Errorf("a write for another %s went through", what)
		}
		got, err = t.two.Tokens(t.Context(), other)
		t.is("tokens for another "+what, err, oauth.ErrReview)
		if got != nil {
			t.Errorf("tokens were given for another %s", what)
		}
		_, err = t.one.Tokens(t.Context(), other)
		t.is("tokens for another "+what+", asked again", err, oauth.ErrReview)
		if what == "user" { // who knows an ID cannot sign its owner out
			if got, err := t.one.Tokens(t.Context(), c); err != nil || got.Access != "access" {
				t.Errorf("another user's question took the tokens away: %v", err)
			}
			continue
		}
		if got, err := t.one.Tokens(t.Context(), c); got != nil || !errors.Is(err, oauth.ErrNotFound) && !errors.Is(err, oauth.ErrGone) {
			t.Errorf("tokens are still there after somebody asked for them as another %s: %v", what, err)
		}
	}
}

func exerciseKill(t *storeTest) {
	c, other := t.add("notes"), t.add("mail")
	version := t.put(c, 0, "access")
	t.put(other, 0, "other")
	t.ok(t.one.AddAttempt(t.Context(), sampleAttempt(c, "state")))
	t.ok(t.one.AddAttempt(t.Context(), sampleAttempt(other, "state of other")))

	left, err := t.two.Kill(t.Context(), c)
	t.ok(err)
	want := sampleTokens(c, "access")
	want.Version = version
	t.same("tokens to revoke", left, want)
	_, err = t.one.TakeAttempt(t.Context(), "state")
	t.is("attempt of a dead connection", err, oauth.ErrNotFound)
	_, err = t.one.Tokens(t.Context(), c)
	t.is("tokens of a dead connection", err, oauth.ErrGone)

	left, err = t.one.Kill(t.Context(), c) // the process died before it revoked
	t.ok(err)
	if left == nil || left.Refresh != want.Refresh {
		t.Error("a second Kill does not give the tokens that are left to be revoked")
	}
	t.ok(t.one.Erase(t.Context(), c))
	t.ok(t.two.Erase(t.Context(), c)) // again
	left, err = t.two.Kill(t.Context(), c)
	t.ok(err)
	if left != nil {
		t.Error("tokens are left after Erase")
	}

	_, err = t.two.Tokens(t.Context(), other)
	t.ok(err)
	_, err = t.two.TakeAttempt(t.Context(), "state of other")
	t.ok(err)

	signedOut := t.add("calendar")
	left, err = t.one.Kill(t.Context(), signedOut)
	t.ok(err)
	if left != nil {
		t.Error("tokens of a connection that never had any")
	}
}

func exerciseKillIsFinal(t *storeTest) {
	c := t.add("notes")
	version := t.put(c, 0, "access")
	late, err := t.one.Tokens(t.Context(), c)
	t.ok(err)
	_, err = t.one.Kill(t.Context(), c)
	t.ok(err)
	dead := func(when string) {
		t.Helper()
		t.is("add "+when, t.two.Add(t.Context(), c), oauth.ErrGone)
		t.is("attempt "+when, t.two.AddAttempt(t.Context(), sampleAttempt(c, "s")), oauth.ErrGone)
		for _, v := range []int64{0, version} {
			late.Version = v
			_, err := t.two.PutTokens(t.Context(), late) // a refresh that comes back late
			t.is("put "+when, err, oauth.ErrGone)
		}
		ok, err := t.two.Lease(t.Context(), c, "p", time.Minute)
		if ok {
			t.Errorf("a lease %s", when)
		}
		t.is("lease "+when, err, oauth.ErrGone)
		_, err = t.two.Tokens(t.Context(), c)
		t.is("tokens "+when, err, oauth.ErrGone)
	}
	dead("after Kill")
	t.ok(t.one.Erase(t.Context(), c))
	dead("after Erase")
}

func exerciseKillOther(t *storeTest) {
	c := t.add("notes")
	t.put(c, 0, "access")
	eve := c
	eve.User = "eve"
	if left, err := t.two.Kill(t.Context(), eve); left != nil || err == nil {
		t.Errorf("another user's Kill: tokens %v, error %v", left != nil, err)
	}
	_ = t.two.Erase(t.Context(), eve)
	_ = t.two.Erase(t.Context(), c) // erases what is dead only
	if _, err := t.one.Tokens(t.Context(), c); err != nil {
		t.Errorf("another user deleted the connection: %v", err)
	}
}

func exerciseRegistrations(t *storeTest) {
	_, err := t.one.Registration(t.Context(), "https://as.example.com")
	t.is("none yet", err, oauth.ErrNotFound)
	want := &oauth.Registration{Issuer: "https://as.example.com", ClientID: "c-1", Secret: "s-1", AuthMethod: "client_secret_basic", Expires: time.Now().Add(time.Hour)}
	t.ok(t.one.PutRegistration(t.Context(), want))
	got, err := t.two.Registration(t.Context(), "https://as.example.com")
	t.ok(err)
	t.same("registration", got, want)
	for _, issuer := range []string{"https://as.example.com/", "https://AS.example.com", "https://as.example.com:443", ""} {
		_, err := t.two.Registration(t.Context(), issuer)
		t.is("issuer "+issuer, err, oauth.ErrNotFound)
	}
	want = &oauth.Registration{Issuer: "https://as.example.com", ClientID: "c-2", AuthMethod: "none"}
	t.ok(t.two.PutRegistration(t.Context(), want)) // the old one expired
	got, err = t.one.Registration(t.Context(), "https://as.example.com")
	t.ok(err)
	t.same("registration put again", got, want)
}

func exerciseCopies(t *storeTest) {
	c := t.add("notes")
	in := sampleTokens(c, "access")
	_, err := t.one.PutTokens(t.Context(), in)
	t.ok(err)
	in.Access, in.Scopes[0], in.Requested[0] = "changed", "changed", "changed"
	out, err := t.one.Tokens(t.Context(), c)
	t.ok(err)
	out.Refresh, out.Scopes[0] = "changed", "changed"
	again, err := t.one.Tokens(t.Context(), c)
	t.ok(err)
	if again.Access != "access" || again.Refresh != "refresh of access" || again.Scopes[0] != "notes.read" || again.Requested[0] != "notes.read" {
		t.Errorf("the store shares memory with its callers: %v", again)
	}
	a := sampleAttempt(c, "state")
	t.ok(t.one.AddAttempt(t.Context(), a))
	a.Scopes[0], a.Verifier = "changed", "changed"
	got, err := t.one.TakeAttempt(t.Context(), "state")
	t.ok(err)
	if got.Scopes[0] != "a" || got.Verifier != "verifier" {
		t.Errorf("the store shares memory with its callers: %v", got)
	}
}

// each runs fn at the same time for each of n numbers, on both handles in turn.
func (t *storeTest) each(n int, fn func(i int, s oauth.Store)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i, []oauth.Store{t.one, t.two}[i%2])
		})
	}
	close(start)
	wg.Wait()
}

func exerciseConcurrency(t *storeTest) {
	const workers = 8
	c := t.add("notes")
	t.ok(t.one.AddAttempt(t.Context(), sampleAttempt(c, "state")))
	var mu sync.Mutex
	won, leased := 0, 0
	t.each(workers, func(i int, s oauth.Store) {
		_, err := s.TakeAttempt(t.Context(), "state")
		ok, leaseErr := s.Lease(t.Context(), c, "p"+strconv.Itoa(i), time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			won++
		} else {
			t.is("attempt", err, oauth.ErrNotFound)
		}
		t.is("lease", leaseErr, nil)
		if ok {
			leased++
		}
	})
	if won != 1 || leased != 1 {
		t.Errorf("%d callers took one attempt and %d got one lease", won, leased)
	}

	// A counter in the tokens: no update may be lost.
	const rounds = 3
	t.put(c, 0, "0")
	t.each(workers, func(_ int, s oauth.Store) {
		for done := 0; done < rounds; {
			tok, err := s.Tokens(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			n, _ := strconv.Atoi(tok.Access.Reveal())
			tok.Access = oauth.Secret(strconv.Itoa(n + 1))
			switch _, err := s.PutTokens(t.Context(), tok); {
			case err == nil:
				done++
			case !errors.Is(err, oauth.ErrConflict):
				t.Error(err)
				return
			}
		}
	})
	tok, err := t.one.Tokens(t.Context(), c)
	t.ok(err)
	if got := tok.Access.Reveal(); got != strconv.Itoa(workers*rounds) {
		t.Errorf("the counter stands at %s after %d updates", got, workers*rounds)
	}
}

// exerciseKillRace: what a late refresh writes is never left behind, whichever
// comes first.
func exerciseKillRace(t *storeTest) {
	for i := range 10 {
		c := t.add("notes-" + strconv.Itoa(i))
		version := t.put(c, 0, "access")
		t.each(4, func(i int, s oauth.Store) {
			if i == 1 {
				_, err := s.Kill(t.Context(), c)
				t.is("kill", err, nil)
				return
			}
			tok := sampleTokens(c, "late")
			tok.Version = version
			if _, err := s.PutTokens(t.Context(), tok); err != nil && !errors.Is(err, oauth.ErrGone) && !errors.Is(err, oauth.ErrConflict) {
				t.Error(err)
			}
		})
		t.ok(t.two.Erase(t.Context(), c))
		left, err := t.one.Kill(t.Context(), c)
		t.ok(err)
		if left != nil {
			t.Error("tokens are left of a deleted connection")
		}
		_, err = t.one.Tokens(t.Context(), c)
		t.is("tokens", err, oauth.ErrGone)
	}
}
