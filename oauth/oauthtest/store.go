package oauthtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openbot-build/openbot-go/oauth"
)

// ExerciseStore is the contract of oauth.Store as a test suite. open makes an
// empty store; each call of what it gives is one more handle on that store, as
// another process would have it. A store of one process may give the same
// handle each time. Cleaning up is open's, by t.Cleanup.
//
// Times may be kept to the second. The suite takes about two seconds, for what
// has to expire.
func ExerciseStore(t *testing.T, open func(t *testing.T) (again func() oauth.Store)) {
	for _, part := range []struct {
		name string
		run  func(s *storeTest)
	}{
		{"Add", exerciseAdd},
		{"Attempts", exerciseAttempts},
		{"AttemptsExpire", exerciseAttemptsExpire},
		{"Tokens", exerciseTokens},
		{"CompareAndSwap", exerciseSwap},
		{"Remove", exerciseRemove},
		{"Leases", exerciseLeases},
		{"LeasesExpire", exerciseLeasesExpire},
		{"Binding", exerciseBinding},
		{"Kill", exerciseKill},
		{"KillIsFinal", exerciseKillIsFinal},
		{"KillOfAnotherUser", exerciseKillOther},
		{"Registrations", exerciseRegistrations},
		{"Copies", exerciseCopies},
		{"Concurrency", exerciseConcurrency},
		{"KillRace", exerciseKillRace},
	} {
		t.Run(part.name, func(t *testing.T) {
			again := open(t)
			part.run(&storeTest{T: t, one: again(), two: again()})
		})
	}
}

// storeTest is a store with two handles.
type storeTest struct {
	*testing.T
	one, two oauth.Store
}

func (t *storeTest) ok(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *storeTest) is(what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func (t *storeTest) same(what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateApproxTime(time.Second), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// add adds a connection.
func (t *storeTest) add(id string) oauth.Connection {
	t.Helper()
	c := oauth.Connection{ID: id, User: "ada", CardURL: "https://apps.example.com/" + id + "/card", Endpoint: "https://apps.example.com/mcp/" + id}
	t.ok(t.one.Add(t.Context(), c))
	return c
}

// put writes tokens over those of a version.
func (t *storeTest) put(c oauth.Connection, version int64, access string) int64 {
	t.Helper()
	tok := sampleTokens(c, access)
	tok.Version = version
	v, err := t.one.PutTokens(t.Context(), tok)
	t.ok(err)
	return v
}

func sampleClient() oauth.Registration {
	return oauth.Registration{Issuer: "https://as.example.com", ClientID: "https://host.example.com/client.json", AuthMethod: "none"}
}

func sampleTokens(c oauth.Connection, access string) *oauth.Tokens {
	return &oauth.Tokens{ //nolint:gosec // of a test
		Connection: c, Client: sampleClient(),
		Access: oauth.Secret(access), Expires: time.Now().Add(5 * time.Minute), Refresh: oauth.Secret("refresh of " + access),
		Scopes: []string{"notes.read"}, Requested: []string{"notes.read", "notes.write"}, Resource: c.Endpoint,
		TokenEndpoint: "https://as.example.com/token", RevocationEndpoint: "https://as.example.com/revoke",
	}
}

func sampleAttempt(c oauth.Connection, state string) *oauth.Attempt {
	client := sampleClient()
	client.Secret, client.AuthMethod = "client secret", "client_secret_basic"
	client.Expires = time.Now().Add(time.Hour)
	return &oauth.Attempt{ //nolint:gosec // of a test
		State: state, Connection: c, Client: client, RedirectURI: "http://127.0.0.1/callback", Verifier: "verifier",
		Scopes: []string{"a", "b"}, Resource: c.Endpoint, IssAdvertised: true,
		TokenEndpoint: "https://as.example.com/token", RevocationEndpoint: "https://as.example.com/revoke", Expires: time.Now().Add(10 * time.Minute),
	}
}

// others are the ways in which a connection can differ from the one added (D22).
func others(c oauth.Connection) map[string]oauth.Connection {
	user, card, endpoint := c, c, c
	user.User, card.CardURL, endpoint.Endpoint = "eve", c.CardURL+"/", c.Endpoint+"/"
	return map[string]oauth.Connection{"user": user, "card": card, "endpoint": endpoint}
}

func exerciseAdd(t *storeTest) {
	c := t.add("notes")
	t.put(c, 0, "access")
	t.ok(t.two.Add(t.Context(), c)) // again
	tok, err := t.two.Tokens(t.Context(), c)
	t.ok(err)
	t.same("tokens after adding again", tok.Access, oauth.Secret("access"))
	for what, other := range others(c) {
		_ = t.one.Add(t.Context(), other) // left as it is, whatever is said
		if _, err := t.one.Tokens(t.Context(), c); err != nil {
			t.Errorf("adding the ID for another %s changed the connection: %v", what, err)
		}
	}
	never := oauth.Connection{ID: "never", User: "ada", CardURL: "c", Endpoint: "e"}
	_, err = t.one.Tokens(t.Context(), never)
	t.is("tokens of one that was never added", err, oauth.ErrGone)
	_, err = t.one.PutTokens(t.Context(), sampleTokens(never, "x"))
	t.is("put for one that was never added", err, oauth.ErrGone)
	t.is("attempt for one that was never added", t.one.AddAttempt(t.Context(), sampleAttempt(never, "s")), oauth.ErrGone)
}

func exerciseAttempts(t *storeTest) {
	c := t.add("notes")
	want := sampleAttempt(c, "state-1")
	t.ok(t.one.AddAttempt(t.Context(), want))
	t.ok(t.one.AddAttempt(t.Context(), sampleAttempt(c, "state-2"))) // two windows at a time
	got, err := t.two.TakeAttempt(t.Context(), "state-1")
	t.ok(err)
	t.same("attempt", got, want)
	_, err = t.one.TakeAttempt(t.Context(), "state-1")
	t.is("an attempt taken twice", err, oauth.ErrNotFound)
	_, err = t.one.TakeAttempt(t.Context(), "never")
	t.is("an unknown state", err, oauth.ErrNotFound)
	_, err = t.one.TakeAttempt(t.Context(), "")
	t.is("no state", err, oauth.ErrNotFound)
	_, err = t.one.TakeAttempt(t.Context(), "state-2")
	t.ok(err)
}

func exerciseAttemptsExpire(t *storeTest) {
	c := t.add("notes")
	past, soon := sampleAttempt(c, "past"), sampleAttempt(c, "soon")
	past.Expires = time.Now().Add(-2 * time.Second)
	soon.Expires = time.Now().Add(100 * time.Millisecond)
	_ = t.one.AddAttempt(t.Context(), past) // a store may refuse it at once
	t.ok(t.one.AddAttempt(t.Context(), soon))
	_, err := t.one.TakeAttempt(t.Context(), "past")
	t.is("an attempt from yesterday", err, oauth.ErrNotFound)
	time.Sleep(time.Until(soon.Expires.Add(1100 * time.Millisecond)))
	_, err = t.two.TakeAttempt(t.Context(), "soon")
	t.is("an attempt that expired", err, oauth.ErrNotFound)
}

func exerciseTokens(t *storeTest) {
	c := t.add("notes")
	_, err := t.one.Tokens(t.Context(), c)
	t.is("before the sign-in", err, oauth.ErrNotFound)
	if errors.Is(err, oauth.ErrGone) {
		t.Error("a connection that is signed out is not gone")
	}
	want := sampleTokens(c, "access")
	version, err := t.one.PutTokens(t.Context(), want)
	t.ok(err)
	if version <= 0 {
		t.Errorf("version %d, want one above 0", version)
	}
	want.Version = version
	got, err := t.two.Tokens(t.Context(), c)
	t.ok(err)
	t.same("tokens", got, want)

	bare := &oauth.Tokens{Connection: c, Client: sampleClient(), Access: "a", TokenEndpoint: "https://as.example.com/token", Version: version} //nolint:gosec // of a test
	if bare.Version, err = t.two.PutTokens(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	got, err = t.one.Tokens(t.Context(), c)
	t.ok(err)
	t.same("tokens of a server that says little", got, bare)
	if !got.Expires.IsZero() {
		t.Errorf("no expiry became %v", got.Expires)
	}

	mail := t.add("mail") // another connection of this user
	_, err = t.one.Tokens(t.Context(), mail)
	t.is("another connection", err, oauth.ErrNotFound)
}

func exerciseSwap(t *storeTest) {
	c := t.add("notes")
	first := t.put(c, 0, "first")
	_, err := t.two.PutTokens(t.Context(), sampleTokens(c, "late"))
	t.is("a second first put", err, oauth.ErrConflict)
	second := t.put(c, first, "second")
	if second <= first {
		t.Errorf("version %d after %d: it must grow", second, first)
	}
	for _, stale := range []int64{0, first, second + 1, -1} {
		tok := sampleTokens(c, "stale")
		tok.Version = stale
		_, err := t.two.PutTokens(t.Context(), tok)
		t.is(fmt.Sprintf("put over version %d of %d", stale, second), err, oauth.ErrConflict)
	}
	got, err := t.two.Tokens(t.Context(), c)
	t.ok(err)
	if got.Access != "second" || got.Version != second {
		t.Errorf("a refused put wrote: %v", got)
	}
}

func exerciseRemove(t *storeTest) {
	c := t.add("notes")
	first := t.put(c, 0, "first")
	second := t.put(c, first, "second")
	if err := t.two.RemoveTokens(t.Context(), c, first); err != nil && !errors.Is(err, oauth.ErrConflict) {
		t.Errorf("remove a version that is gone: %v", err)
	}
	if _, err := t.one.Tokens(t.Context(), c); err != nil {
		t.Fatalf("removing an old version removed the new one: %v", err)
	}
	t.ok(t.two.RemoveTokens(t.Context(), c, second))
	_, err := t.one.Tokens(t.Context(), c)
	t.is("after removal", err, oauth.ErrNotFound)
	if errors.Is(err, oauth.ErrGone) {
		t.Error("signing out does not delete the connection")
	}
	tok := sampleTokens(c, "revived")
	tok.Version = second
	_, err = t.one.PutTokens(t.Context(), tok)
	t.is("put over removed tokens", err, oauth.ErrConflict)
	if third := t.put(c, 0, "third"); third == first || third == second {
		t.Errorf("version %d was given before: a late removal would hit the wrong tokens", third)
	}
}

func exerciseLeases(t *storeTest) {
	c, other := t.add("notes"), t.add("mail")
	lease := func(s oauth.Store, c oauth.Connection, holder string, want bool) {
		t.Helper()
		ok, err := s.Lease(t.Context(), c, holder, time.Minute)
		t.ok(err)
		if ok != want {
			t.Errorf("lease of %s for %s: %v, want %v", c.ID, holder, ok, want)
		}
	}
	lease(t.one, c, "p1", true)
	lease(t.two, c, "p2", false)
	lease(t.one, c, "p1", true) // held by itself: longer
	lease(t.two, other, "p2", true)
	t.ok(t.two.Release(t.Context(), c, "p2")) // not its own
	lease(t.two, c, "p2", false)
	t.ok(t.one.Release(t.Context(), c, "p1"))
	lease(t.two, c, "p2", true)
	lease(t.one, c, "p1", false)
	t.put(c, 0, "access") // a lease orders refreshes; it does not lock the row
}

func exerciseLeasesExpire(t *storeTest) {
	c := t.add("notes")
	ok, err := t.one.Lease(t.Context(), c, "p1", 200*time.Millisecond)
	t.ok(err)
	if !ok {
		t.Fatal("no lease on a new connection")
	}
	for give := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ok, err := t.two.Lease(t.Context(), c, "p2", time.Minute)
		t.ok(err)
		if ok {
			break
		}
		if time.Now().After(give) {
			t.Fatal("a lease of 200 ms is still held after 10 s")
		}
	}
	t.ok(t.one.Release(t.Context(), c, "p1")) // late: it is another one's now
	ok, err = t.one.Lease(t.Context(), c, "p1", time.Minute)
	t.ok(err)
	if ok {
		t.Error("a late release gave the new holder's lease away")
	}
}
