package sqlite

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/openbot-build/openbot-go/oauth"
)

// Users of one app have nothing in common: neither tokens nor settings of one
// are given to, replaced or removed by another, not even with the other's id.
func TestRule_OB70_SecretsAreKeptApartForEveryUser(t *testing.T) { keptApart(t) }

func TestRule_OauthO6_SecretsAreKeptForEachUserAlone(t *testing.T) { keptApart(t) }

func keptApart(t *testing.T) {
	s, ann, bob := newStore(t), conn("a", "ann"), conn("b", "bob")
	for _, c := range []oauth.Connection{ann, bob} {
		signedIn(t, s, c)
		for _, kind := range []Kind{Header, Variable} {
			if err := s.PutSetting(t.Context(), c, kind, "key", oauth.Secret(c.User)); err != nil {
				t.Fatal(err)
			}
		}
	}
	thief := ann
	thief.User = "bob"
	if err := s.PutSetting(t.Context(), thief, Header, "key", "x"); !errors.Is(err, oauth.ErrGone) {
		t.Error(err)
	}
	if err := s.DeleteSetting(t.Context(), thief, Header, "key"); !errors.Is(err, oauth.ErrGone) {
		t.Error(err)
	}
	if err := s.AddAttempt(t.Context(), attemptOf(thief, "s")); !errors.Is(err, oauth.ErrGone) {
		t.Error(err)
	}
	x := tokensOf(thief)
	x.Version = 1
	if _, err := s.PutTokens(t.Context(), x); !errors.Is(err, oauth.ErrGone) {
		t.Error(err)
	}
	if _, err := s.Kill(t.Context(), thief); !errors.Is(err, oauth.ErrGone) {
		t.Error(err)
	}
	if err := s.Erase(t.Context(), thief); err != nil {
		t.Error(err)
	}
	for _, c := range []oauth.Connection{ann, bob} {
		for _, kind := range []Kind{Header, Variable} {
			if v, err := s.Setting(t.Context(), c, kind, "key"); err != nil || v.Reveal() != c.User {
				t.Errorf("%s of %s is %q, %v", kind, c.User, v.Reveal(), err)
			}
		}
		if got, err := s.Tokens(t.Context(), c); err != nil || got.Connection != c {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if v, err := s.Setting(t.Context(), thief, Header, "key"); err == nil || v != "" {
		t.Error("a setting was given to another user")
	}
	if x, err := s.Tokens(t.Context(), thief); err == nil || x != nil {
		t.Error("tokens were given to another user")
	}
}

// otherTargets are connections that differ from c in one thing each.
func otherTargets(c oauth.Connection) map[string]oauth.Connection {
	user, card, endpoint, slash := c, c, c, c
	user.User += "x"
	card.CardURL += "?v=2"
	endpoint.Endpoint = "https://notes.example.com/mcp2"
	slash.Endpoint += "/"
	return map[string]oauth.Connection{"user": user, "card": card, "endpoint": endpoint, "last slash": slash}
}

func TestRule_OB71_AnOldTokenNeverMovesToANewTarget(t *testing.T) { staysAtItsTarget(t) }

func TestRule_OauthO4_NoOldTokenGoesToANewTarget(t *testing.T) { staysAtItsTarget(t) }

func staysAtItsTarget(t *testing.T) {
	for what, target := range otherTargets(conn("c1", "ann")) {
		t.Run(what, func(t *testing.T) {
			s, c := newStore(t), conn("c1", "ann")
			old := signedIn(t, s, c)
			if err := s.PutSetting(t.Context(), c, Header, "key", "1"); err != nil {
				t.Fatal(err)
			}
			if err := s.Add(t.Context(), target); err != nil { // which changes nothing
				t.Fatal(err)
			}
			x, err := s.Tokens(t.Context(), target)
			if x != nil || !errors.Is(err, oauth.ErrReview) {
				t.Errorf("%+v, %v", x, err)
			}
			v, err := s.Setting(t.Context(), target, Header, "key")
			if v != "" || !errors.Is(err, oauth.ErrReview) {
				t.Errorf("%s, %v", v, err)
			}
			if what == "user" { // who knows an id cannot sign its owner out
				readAll(t, s, []*oauth.Tokens{old})
				if v, err := s.Setting(t.Context(), c, Header, "key"); err != nil || v != "1" {
					t.Errorf("%s, %v", v, err)
				}
				return
			}
			// They are removed, so that they do not come back with the old target.
			_, err = s.Tokens(t.Context(), c)
			wantErr(t, err, oauth.ErrNotFound)
			_, err = s.Setting(t.Context(), c, Header, "key")
			wantErr(t, err, oauth.ErrNotFound)
			if n := count(t, s, `SELECT count(*) FROM secret`); n != 0 {
				t.Errorf("%d secrets are left", n)
			}
			// A refresh that was under way writes to neither.
			_, err = s.PutTokens(t.Context(), old)
			wantErr(t, err, oauth.ErrConflict)
			old.Connection = target
			_, err = s.PutTokens(t.Context(), old)
			wantErr(t, err, oauth.ErrGone)
		})
	}
}

// A token is bound to user, card, endpoint, issuer and client: with any of them
// changed it is not given, and removed. TestEditedRowsDoNotOpen has every other
// column, and TestNoSecretInTheFiles looks for what is not sealed.
func TestRule_OB73_AnyDifferenceMakesATokenUnusable(t *testing.T) {
	for _, column := range []string{"user", "card_url", "endpoint", "issuer", "client_id"} {
		t.Run(column, func(t *testing.T) {
			s, path := newStoreAt(t)
			c := conn("c1", "ann")
			signedIn(t, s, c)
			edit(t, raw(t, path), `UPDATE secret SET `+edits[column])
			damagedThenOut(t, s, c)
		})
	}
	t.Run("sealed", TestNoSecretInTheFiles)
}

func TestRule_OB72_DeletingErasesTokensAndTouchesNobodyElse(t *testing.T) { deleted(t) }

func TestRule_OB74_ALateResultBringsNothingBack(t *testing.T) { deleted(t) }

func TestRule_OauthO5_DeletingAConnectionErasesItsTokens(t *testing.T) { deleted(t) }

func deleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	s, other := openAt(t, path, nil), openAt(t, path, nil)
	c, neighbor := conn("c1", "ann"), conn("c2", "bob")
	want, kept := signedIn(t, s, c), signedIn(t, s, neighbor)
	for _, x := range []oauth.Connection{c, neighbor} {
		if err := s.AddAttempt(t.Context(), attemptOf(x, "state of "+x.ID)); err != nil {
			t.Fatal(err)
		}
		if err := s.PutSetting(t.Context(), x, Header, "key", "1"); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := other.Lease(t.Context(), c, "refresher", 1e10); err != nil || !ok {
		t.Fatal(ok, err)
	}
	closed := func(when string) {
		t.Helper()
		_, errTokens := other.Tokens(t.Context(), c)
		_, errPut := other.PutTokens(t.Context(), want) // the late refresh
		_, errSetting := other.Setting(t.Context(), c, Header, "key")
		_, errLease := other.Lease(t.Context(), c, "refresher", 1e10)
		for what, err := range map[string]error{
			"tokens": errTokens, "put tokens": errPut, "setting": errSetting, "lease": errLease,
			"remove tokens": other.RemoveTokens(t.Context(), c, want.Version), "put setting": other.PutSetting(t.Context(), c, Header, "key", "2"),
			"delete setting": other.DeleteSetting(t.Context(), c, Header, "key"),
			"attempt":        other.AddAttempt(t.Context(), attemptOf(c, "another")), "add": other.Add(t.Context(), c),
		} {
			if !errors.Is(err, oauth.ErrGone) {
				t.Errorf("%s: %s: %v", when, what, err)
			}
		}
		_, err := other.TakeAttempt(t.Context(), "state of c1") // the late callback
		wantErr(t, err, oauth.ErrNotFound)
		if err := other.Release(t.Context(), c, "refresher"); err != nil {
			t.Error(err)
		}
	}
	if err := s.Erase(t.Context(), c); err != nil { // not killed: nothing happens
		t.Fatal(err)
	}
	moved := c
	moved.Endpoint += "/new" // the card changed meanwhile
	for range 2 {            // a host that died in between does it again
		got, err := s.Kill(t.Context(), moved)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want) // to be revoked
		closed("killed")
	}
	for range 2 {
		if err := s.Erase(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		closed("erased")
	}
	if got, err := s.Kill(t.Context(), c); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if n := count(t, s, `SELECT count(*) FROM secret WHERE connection = 'c1'`) + count(t, s, `SELECT count(*) FROM lease`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if n := count(t, s, `SELECT count(*) FROM connection WHERE id = 'c1' AND user || card_url || endpoint = '' AND version = 0`); n != 1 {
		t.Error("more than the id is left")
	}
	readAll(t, other, []*oauth.Tokens{kept})
	if _, err := other.TakeAttempt(t.Context(), "state of c2"); err != nil {
		t.Error(err)
	}
	if v, err := other.Setting(t.Context(), neighbor, Header, "key"); err != nil || v != "1" {
		t.Errorf("%v, %v", v, err)
	}
	// What was never there can be ended too, and stays so.
	never := conn("c3", "ann")
	if got, err := s.Kill(t.Context(), never); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	wantErr(t, s.Add(t.Context(), never), oauth.ErrGone)
}

// Tokens that do not open cannot be revoked; the connection ends all the same.
func TestKillDamaged(t *testing.T) {
	s, path := newStoreAt(t)
	c := conn("c1", "ann")
	signedIn(t, s, c)
	edit(t, raw(t, path), `UPDATE secret SET issuer = 'x'`)
	if left, err := s.Kill(t.Context(), c); left != nil || err != nil {
		t.Errorf("%v, %v", left, err)
	}
	_, err := s.Tokens(t.Context(), c)
	wantErr(t, err, oauth.ErrGone)
}

// Credentials are found by their issuer alone, byte for byte, and what is sealed
// for one does not open as another's.
func TestRule_OauthC8_CredentialsAreKeyedByIssuer(t *testing.T) {
	s, path := newStoreAt(t)
	if err := s.PutRegistration(t.Context(), &oauth.Registration{Issuer: "https://a.example", ClientID: "1", Secret: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"https://a.example/", "https://A.example", "https://a.example:443", "a.example", ""} {
		r, err := s.Registration(t.Context(), other)
		if r != nil || !errors.Is(err, oauth.ErrNotFound) {
			t.Errorf("%s: %+v, %v", other, r, err)
		}
	}
	edit(t, raw(t, path), `UPDATE secret SET name = 'https://b.example', issuer = 'https://b.example'`)
	r, err := s.Registration(t.Context(), "https://b.example")
	if _, ok := errors.AsType[*DamagedError](err); r != nil || !ok {
		t.Errorf("%+v, %v", r, err)
	}
}

// Refresh tokens lie sealed, and never have to come: without one there is none.
func TestRule_OauthC16_RefreshTokensAreConfidential(t *testing.T) {
	t.Run("sealed", TestNoSecretInTheFiles)
	s, c := newStore(t), conn("c1", "ann")
	x := signedIn(t, s, c)
	x.Refresh = ""
	if _, err := s.PutTokens(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Tokens(t.Context(), c); err != nil || got.Refresh != "" {
		t.Errorf("a refresh token of before is left: %v", err)
	}
	if n := count(t, s, `SELECT count(*) FROM secret WHERE kind = 'refresh'`); n != 0 {
		t.Errorf("%d refresh tokens are left", n)
	}
}
