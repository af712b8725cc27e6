package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
)

func TestTokensComeBackAsTheyWere(t *testing.T) {
	s := newStore(t)
	for _, change := range []func(*oauth.Tokens){
		func(*oauth.Tokens) {},
		func(x *oauth.Tokens) { x.Refresh = "" },
		func(x *oauth.Tokens) {
			x.Client.Secret, x.Client.AuthMethod, x.Client.Expires = "", "none", time.Time{}
		},
		func(x *oauth.Tokens) { x.Expires, x.Scopes, x.Requested = time.Time{}, nil, []string{} },
		func(x *oauth.Tokens) { x.Access = "" },
		func(x *oauth.Tokens) { x.Resource, x.RevocationEndpoint = "https://notes.example.com", "" },
		func(x *oauth.Tokens) { x.Scopes = []string{"a\nb", "é\x00", `"`} },
	} {
		c := conn(randomID(), "ann")
		want := tokensOf(c)
		change(want)
		if err := s.Add(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		v, err := s.PutTokens(t.Context(), want)
		if err != nil || v != 1 {
			t.Fatalf("version %d, %v", v, err)
		}
		want.Version = 1
		got, err := s.Tokens(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	}
}

// No version is given twice: a refresh that began before the user signed out and
// in again cannot write over the new tokens.
func TestVersionsAreNotUsedAgain(t *testing.T) {
	s, c := newStore(t), conn("c1", "ann")
	old := signedIn(t, s, c)
	wantErr(t, s.RemoveTokens(t.Context(), c, old.Version+1), oauth.ErrConflict)
	if err := s.RemoveTokens(t.Context(), c, old.Version); err != nil {
		t.Fatal(err)
	}
	_, err := s.Tokens(t.Context(), c)
	wantErr(t, err, oauth.ErrNotFound)
	if err := s.RemoveTokens(t.Context(), c, old.Version); err != nil {
		t.Error(err)
	}
	_, err = s.PutTokens(t.Context(), old) // the late refresh, before
	wantErr(t, err, oauth.ErrConflict)
	v, err := s.PutTokens(t.Context(), tokensOf(c))
	if err != nil || v == old.Version {
		t.Fatalf("version %d again, %v", v, err)
	}
	_, err = s.PutTokens(t.Context(), old) // and after the new sign-in
	wantErr(t, err, oauth.ErrConflict)
}

func TestAttempts(t *testing.T) {
	s, c := newStore(t), conn("c1", "ann")
	wantErr(t, s.AddAttempt(t.Context(), attemptOf(c, "s1")), oauth.ErrGone)
	x := signedIn(t, s, c) // tokens stay apart from attempts
	want := attemptOf(c, "s1")
	if err := s.AddAttempt(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := s.AddAttempt(t.Context(), want); err == nil {
		t.Error("a state was used twice")
	}
	other := attemptOf(c, "s2")
	other.Client.Secret = ""
	if err := s.AddAttempt(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	got, err := s.TakeAttempt(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	_, err = s.TakeAttempt(t.Context(), "s1")
	wantErr(t, err, oauth.ErrNotFound)
	if got, err = s.TakeAttempt(t.Context(), "s2"); err != nil {
		t.Fatal(err)
	}
	same(t, got, other)
	if got, err := s.Tokens(t.Context(), c); err != nil {
		t.Error(err)
	} else {
		same(t, got, x)
	}
}

func TestAttemptsExpire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	synctest.Test(t, func(t *testing.T) {
		s, c := openAt(t, path, nil), conn("c1", "ann")
		x := signedIn(t, s, c)
		for _, state := range []string{"s1", "s2", "s3"} {
			if err := s.AddAttempt(t.Context(), attemptOf(c, state)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10*time.Minute - time.Second)
		if _, err := s.TakeAttempt(t.Context(), "s1"); err != nil {
			t.Errorf("in time: %v", err)
		}
		time.Sleep(time.Second)
		_, err := s.TakeAttempt(t.Context(), "s2")
		wantErr(t, err, oauth.ErrNotFound)
		if n := count(t, s, `SELECT count(*) FROM secret WHERE kind = 'verifier'`); n != 1 {
			t.Fatalf("%d attempts wait", n)
		}
		if err := s.AddAttempt(t.Context(), attemptOf(c, "s4")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		other := openAt(t, path, nil) // opening sweeps
		if n := count(t, other, `SELECT count(*) FROM secret WHERE name <> ''`); n != 0 {
			t.Errorf("%d rows of attempts are left", n)
		}
		if got, err := s.Tokens(t.Context(), c); err != nil {
			t.Error(err)
		} else {
			same(t, got, x)
		}
	})
}

func TestLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	synctest.Test(t, func(t *testing.T) {
		a, b, c := openAt(t, path, nil), openAt(t, path, nil), conn("c1", "ann")
		lease := func(s *Store, holder string, want bool) {
			t.Helper()
			if ok, err := s.Lease(t.Context(), c, holder, 30*time.Second); err != nil || ok != want {
				t.Errorf("%s: %v, %v", holder, ok, err)
			}
		}
		_, err := a.Lease(t.Context(), c, "a", time.Second)
		wantErr(t, err, oauth.ErrGone)
		if err := a.Add(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		lease(a, "a", true)
		lease(b, "b", false)
		time.Sleep(20 * time.Second)
		lease(a, "a", true) // longer
		time.Sleep(29 * time.Second)
		lease(b, "b", false)
		if err := b.Release(t.Context(), c, "b"); err != nil { // not its own
			t.Error(err)
		}
		lease(b, "b", false)
		time.Sleep(time.Second)
		lease(b, "b", true) // the holder died
		lease(a, "a", false)
		if err := b.Release(t.Context(), c, "b"); err != nil {
			t.Error(err)
		}
		lease(a, "a", true)
		if _, err := a.Lease(t.Context(), c, "", time.Second); err == nil {
			t.Error("a holder without a name")
		}
	})
}

// A lease of a clock that was set back does not last until it is there again. A
// small step back ends none.
func TestLeaseWhenTheClockIsSetBack(t *testing.T) {
	s, c := newStore(t), conn("c1", "ann")
	if err := s.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for back, want := range map[time.Duration]bool{clockSlack / 2: false, time.Hour: true} {
		if ok, err := s.Lease(t.Context(), c, "a", 30*time.Second); err != nil || !ok {
			t.Fatal(ok, err)
		}
		edit(t, s.write, `UPDATE lease SET since = since + ?1, until = until + ?1`, back.Microseconds())
		// Who asks for a shorter time than the holder has does not get it for that.
		if ok, err := s.Lease(t.Context(), c, "b", time.Second); err != nil || ok != want {
			t.Errorf("%v back: %v, %v", back, ok, err)
		}
		for _, holder := range []string{"a", "b"} {
			if err := s.Release(t.Context(), c, holder); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// No connection fills the file with sign-ins that nobody finishes, and none of
// them lives for ever.
func TestAttemptsAreBounded(t *testing.T) {
	s, c, other := newStore(t), conn("c1", "ann"), conn("c2", "bob")
	for _, c := range []oauth.Connection{c, other} {
		if err := s.Add(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddAttempt(t.Context(), attemptOf(other, "other")); err != nil {
		t.Fatal(err)
	}
	const n = 3 * maxAttempts
	for i := range n {
		a := attemptOf(c, fmt.Sprint(i))
		a.Expires = time.Now().Add(1000 * time.Hour)
		if err := s.AddAttempt(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, s, `SELECT count(*) FROM secret WHERE connection = 'c1'`); n != 2*maxAttempts {
		t.Errorf("%d rows", n)
	}
	for i := range n {
		a, err := s.TakeAttempt(t.Context(), fmt.Sprint(i))
		if i < n-maxAttempts {
			wantErr(t, err, oauth.ErrNotFound)
		} else if err != nil {
			t.Errorf("the newest: %v", err)
		} else if a.Expires.After(time.Now().Add(maxAttempt)) {
			t.Errorf("it lives until %v", a.Expires)
		}
	}
	if _, err := s.TakeAttempt(t.Context(), "other"); err != nil {
		t.Errorf("of another connection: %v", err)
	}
}

// A host that died between Kill and Erase leaves no tokens for ever.
func TestKilledIsErasedInTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	synctest.Test(t, func(t *testing.T) {
		var log logs
		s, c, other := openAt(t, path, nil), conn("c1", "ann"), conn("c2", "bob")
		signedIn(t, s, c)
		kept := signedIn(t, s, other)
		if _, err := s.Kill(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(burial - time.Second)
		openAt(t, path, nil)
		if left, err := s.Kill(t.Context(), c); left == nil || err != nil {
			t.Fatalf("too early: %v, %v", left, err)
		}
		time.Sleep(burial)
		openAt(t, path, &Options{MasterKey: fixed(testKey), Log: log.logger()})
		if n := count(t, s, `SELECT count(*) FROM secret WHERE connection = 'c1'`); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		if n := count(t, s, `SELECT count(*) FROM connection WHERE id = 'c1' AND state = 2 AND user || card_url || endpoint = ''`); n != 1 {
			t.Error("it is not erased")
		}
		if !log.contains("cut short") {
			t.Error("nothing was logged")
		}
		wantErr(t, s.Add(t.Context(), c), oauth.ErrGone)
		readAll(t, s, []*oauth.Tokens{kept})
	})
}

func TestRegistrations(t *testing.T) {
	s := newStore(t)
	_, err := s.Registration(t.Context(), "https://login.example.com")
	wantErr(t, err, oauth.ErrNotFound)
	for _, r := range []*oauth.Registration{
		{Issuer: "https://login.example.com", ClientID: "1", AuthMethod: "none"},
		{Issuer: "https://login.example.com/", ClientID: "2", Secret: "s", AuthMethod: "client_secret_basic", Expires: time.Unix(1e9, 0).UTC()},
		{Issuer: "https://login.example.com", ClientID: "3", Secret: "s", AuthMethod: "client_secret_basic"},
	} {
		if err := s.PutRegistration(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		got, err := s.Registration(t.Context(), r.Issuer)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, r)
	}
	if n := count(t, s, `SELECT count(*) FROM secret`); n != 2 {
		t.Errorf("%d rows for two issuers", n)
	}
}

func TestSettings(t *testing.T) {
	s, c := newStore(t), conn("c1", "ann")
	if err := s.PutSetting(t.Context(), c, Header, "X-Key", "1"); !errors.Is(err, oauth.ErrGone) {
		t.Error(err)
	}
	if err := s.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	_, err := s.Setting(t.Context(), c, Header, "X-Key")
	wantErr(t, err, oauth.ErrNotFound)
	for _, v := range []struct {
		kind        Kind
		name, value string
	}{{Header, "X-Key", "1"}, {Header, "x-key", "2"}, {Variable, "X-Key", ""}, {Header, "X-Key", "3"}} {
		if err := s.PutSetting(t.Context(), c, v.kind, v.name, oauth.Secret(v.value)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Setting(t.Context(), c, v.kind, v.name); err != nil || got.Reveal() != v.value {
			t.Errorf("%s %s is %q, %v", v.kind, v.name, got.Reveal(), err)
		}
	}
	for range 2 { // the second time it is gone already
		if err := s.DeleteSetting(t.Context(), c, Header, "X-Key"); err != nil {
			t.Error(err)
		}
	}
	_, err = s.Setting(t.Context(), c, Header, "X-Key")
	wantErr(t, err, oauth.ErrNotFound)
	if got, err := s.Setting(t.Context(), c, Header, "x-key"); err != nil || got != "2" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []struct {
		kind Kind
		name string
	}{{access, "x"}, {"", "x"}, {Header, ""}} {
		if err := s.PutSetting(t.Context(), c, bad.kind, bad.name, "x"); err == nil {
			t.Errorf("%v was written", bad)
		}
		if _, err := s.Setting(t.Context(), c, bad.kind, bad.name); err == nil || errors.Is(err, oauth.ErrNotFound) {
			t.Errorf("%v was read: %v", bad, err)
		}
		if err := s.DeleteSetting(t.Context(), c, bad.kind, bad.name); err == nil {
			t.Errorf("%v was deleted", bad)
		}
	}
	if err := s.PutSetting(t.Context(), c, Header, "x", oauth.Secret(strings.Repeat("x", maxSecret+1))); err == nil {
		t.Error("a secret without end was written")
	}
}

// Two handles and many goroutines count one version up: each number is given
// once.
func TestConcurrentPuts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	stores, c := []*Store{openAt(t, path, nil), openAt(t, path, nil)}, conn("c1", "ann")
	if err := stores[0].Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	const workers, each = 6, 8
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[int64]bool)
	for w := range workers {
		wg.Go(func() {
			for done := 0; done < each; {
				v, err := advance(t.Context(), stores[w%2], c)
				if errors.Is(err, oauth.ErrConflict) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[v] {
					t.Errorf("version %d was given twice", v)
				}
				seen[v] = true
				mu.Unlock()
				done++
			}
		})
	}
	wg.Wait()
	if got, err := stores[1].Tokens(t.Context(), c); err != nil || got.Version != workers*each {
		t.Errorf("%+v, %v", got, err)
	}
}
