package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/oauth"
)

// edits change one column of a row each, in the way that suits its type.
var edits = map[string]string{
	"format":              `format = format + 1`,
	"key_id":              `key_id = 'another'`,
	"connection":          `connection = 'c2'`,
	"user":                `user = 'bob'`,
	"kind":                `kind = CASE kind WHEN 'access' THEN 'refresh' ELSE 'access' END`,
	"name":                `name = 'x'`,
	"parts":               `parts = 'access'`,
	"card_url":            `card_url = 'https://evil.example.net/card.json'`,
	"endpoint":            `endpoint = 'https://evil.example.net/mcp'`,
	"issuer":              `issuer = 'https://evil.example.net'`,
	"resource":            `resource = 'https://evil.example.net/mcp'`,
	"client_id":           `client_id = 'evil'`,
	"auth_method":         `auth_method = 'client_secret_basic'`,
	"client_expires":      `client_expires = client_expires + 1`,
	"token_endpoint":      `token_endpoint = 'https://evil.example.net/token'`,
	"revocation_endpoint": `revocation_endpoint = 'https://evil.example.net/revoke'`,
	"redirect_uri":        `redirect_uri = 'https://evil.example.net/callback'`,
	"iss_advertised":      `iss_advertised = 1 - iss_advertised`,
	"scopes":              `scopes = '["admin"]'`,
	"requested":           `requested = '["admin"]'`,
	"expires":             `expires = expires + 1000000000`,
	"version":             `version = version + 1`,
	"salt":                `salt = zeroblob(16)`,
	"nonce":               `nonce = zeroblob(12)`,
	"ciphertext":          `ciphertext = CAST(substr(ciphertext, 1, length(ciphertext) - 1) || x'0000' AS BLOB)`,
}

// There is an edit for each column that a row has.
func TestEveryColumnIsBound(t *testing.T) {
	s := newStore(t)
	rows, err := s.write.QueryContext(t.Context(), `SELECT name FROM pragma_table_info('secret') WHERE name <> 'id'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		n++
		if edits[name] == "" {
			t.Errorf("no test edits %s", name)
		}
	}
	if n != len(edits) || rows.Err() != nil {
		t.Errorf("%d columns, %d edits, %v", n, len(edits), rows.Err())
	}
}

// damagedThenOut checks that what was done to the rows of a connection's tokens
// signs it out, with an error that says so, and that it can sign in again.
func damagedThenOut(t *testing.T, s *Store, c oauth.Connection) {
	t.Helper()
	x, err := s.Tokens(t.Context(), c)
	d, ok := errors.AsType[*DamagedError](err)
	if !ok || x != nil || d.Connection != c.ID {
		t.Fatalf("%+v, %v", x, err)
	}
	wantErr(t, err, oauth.ErrNotFound) // it counts as signed out
	if text := err.Error(); !strings.Contains(text, "sign in again") || strings.Contains(text, "the access token") {
		t.Errorf("the error is %q", text)
	}
	x, err = s.Tokens(t.Context(), c)
	if _, ok = errors.AsType[*DamagedError](err); ok || !errors.Is(err, oauth.ErrNotFound) {
		t.Errorf("what does not open is not removed: %+v, %v", x, err)
	}
	if _, err := s.PutTokens(t.Context(), tokensOf(c)); err != nil {
		t.Errorf("sign in again: %v", err)
	}
	if _, err := s.Tokens(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// Each column of each of the rows that make up a set of tokens, edited alone and
// in all of them together.
func TestEditedRowsDoNotOpen(t *testing.T) {
	s, path := newStoreAt(t)
	db := raw(t, path)
	for column, change := range edits {
		for _, where := range []string{"kind = 'access'", "kind = 'refresh'", "kind = 'client_secret'", "true"} {
			t.Run(column+"/"+strings.Trim(strings.TrimPrefix(where, "kind = "), "'"), func(t *testing.T) {
				edit(t, db, `DELETE FROM secret`)
				c := conn(randomID(), "ann")
				signedIn(t, s, c)
				switch {
				case column == "connection" && where == "true", column == "name" && where == "true":
					return // moved as a whole: see TestMovedRowsDoNotOpen
				case column == "connection", column == "name":
					// Taken away from the set.
					edit(t, db, `UPDATE secret SET `+change+` WHERE connection = ? AND `+where, c.ID)
				case column == "kind" && where != "kind = 'client_secret'": // swapped
					edit(t, db, `DROP INDEX IF EXISTS secret_place`)
					edit(t, db, `UPDATE secret SET `+change+` WHERE connection = ? AND kind <> 'client_secret'`, c.ID)
				case column == "kind":
					edit(t, db, `DELETE FROM secret WHERE connection = ? AND kind = 'refresh'`, c.ID)
					edit(t, db, `UPDATE secret SET kind = 'refresh' WHERE connection = ? AND `+where, c.ID)
				default:
					edit(t, db, `UPDATE secret SET `+change+` WHERE connection = ? AND `+where, c.ID)
				}
				damagedThenOut(t, s, c)
			})
		}
	}
}

func newStoreAt(t *testing.T) (*Store, string) {
	path := filepath.Join(t.TempDir(), "host.db")
	return openAt(t, path, nil), path
}

// Whoever edits the rows and what is known of the connection alike, so that all
// agree, still has nothing that opens.
func TestEditedWithTheConnection(t *testing.T) {
	for column, value := range map[string]string{
		"user": "bob", "card_url": "https://evil.example.net/card.json", "endpoint": "https://evil.example.net/mcp",
	} {
		t.Run(column, func(t *testing.T) {
			s, path := newStoreAt(t)
			c := conn("c1", "ann")
			signedIn(t, s, c)
			if err := s.PutSetting(t.Context(), c, Header, "X-Key", "1"); err != nil {
				t.Fatal(err)
			}
			db := raw(t, path)
			edit(t, db, `UPDATE secret SET `+column+` = ?`, value)
			edit(t, db, `UPDATE connection SET `+column+` = ?`, value)
			switch column {
			case "user":
				c.User = value
			case "card_url":
				c.CardURL = value
			case "endpoint":
				c.Endpoint = value
			}
			damagedThenOut(t, s, c)
			_, err := s.Setting(t.Context(), c, Header, "X-Key")
			if d, ok := errors.AsType[*DamagedError](err); !ok || !strings.Contains(err.Error(), `"X-Key"`) {
				t.Errorf("%v, %v", d, err)
			}
			// And the connection alone: the rows open, and are not its own.
			edit(t, db, `UPDATE connection SET `+column+` = 'x'`)
			switch column {
			case "user":
				c.User = "x"
			case "card_url":
				c.CardURL = "x"
			case "endpoint":
				c.Endpoint = "x"
			}
			_, err = s.Tokens(t.Context(), c)
			wantErr(t, err, oauth.ErrReview)
			if n := count(t, s, `SELECT count(*) FROM secret WHERE kind = 'access'`); n != 0 {
				t.Error("the tokens of another target are kept")
			}
		})
	}
}

// Rows that are moved or copied to another connection do not open there, and
// neither do those of an earlier version beside a later one.
func TestMovedRowsDoNotOpen(t *testing.T) {
	s, path := newStoreAt(t)
	db := raw(t, path)
	a, b := conn("a", "ann"), conn("b", "bob")
	columns := strings.ReplaceAll(boundColumns+", salt, nonce, ciphertext", "\n", " ")
	as := func(id, user string) string {
		return strings.Replace(strings.Replace(columns, "connection, user", "'"+id+"', '"+user+"'", 1), "\t", "", -1)
	}
	t.Run("copied", func(t *testing.T) {
		signedIn(t, s, a)
		if err := s.Add(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		edit(t, db, `INSERT INTO secret (`+columns+`) SELECT `+as("b", "bob")+` FROM secret WHERE connection = 'a'`)
		damagedThenOut(t, s, b)
		if _, err := s.Tokens(t.Context(), a); err != nil {
			t.Errorf("the owner is signed out: %v", err)
		}
	})
	t.Run("moved", func(t *testing.T) {
		edit(t, db, `DELETE FROM secret WHERE connection = 'b'`)
		edit(t, db, `UPDATE secret SET connection = 'b', user = 'bob' WHERE connection = 'a'`)
		damagedThenOut(t, s, b)
	})
	t.Run("of another version", func(t *testing.T) {
		edit(t, db, `DELETE FROM secret`)
		edit(t, db, `CREATE TABLE old AS SELECT * FROM secret`)
		x := signedIn(t, s, a)
		edit(t, db, `INSERT INTO old SELECT * FROM secret WHERE kind = 'refresh'`)
		if _, err := s.PutTokens(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		edit(t, db, `DELETE FROM secret WHERE kind = 'refresh'`)
		edit(t, db, `INSERT INTO secret SELECT * FROM old`)
		damagedThenOut(t, s, a)
	})
	t.Run("all of an earlier version", func(t *testing.T) {
		edit(t, db, `DELETE FROM secret`)
		edit(t, db, `DELETE FROM old`)
		c := conn("c", "ann")
		x := signedIn(t, s, c)
		edit(t, db, `INSERT INTO old SELECT * FROM secret`)
		if _, err := s.PutTokens(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		edit(t, db, `DELETE FROM secret`)
		edit(t, db, `INSERT INTO secret SELECT * FROM old`)
		damagedThenOut(t, s, c)
		// Nor do they come back after a sign-out.
		y, err := s.Tokens(t.Context(), c)
		if err == nil {
			err = s.RemoveTokens(t.Context(), c, y.Version)
		}
		if err != nil {
			t.Fatal(err)
		}
		edit(t, db, `INSERT INTO secret SELECT * FROM old`)
		damagedThenOut(t, s, c)
	})
	t.Run("a part taken away", func(t *testing.T) {
		for i, kind := range []Kind{access, refresh, clientSecret} {
			c := conn(fmt.Sprint("part ", i), "ann")
			signedIn(t, s, c)
			edit(t, db, `DELETE FROM secret WHERE connection = ? AND kind = ?`, c.ID, string(kind))
			damagedThenOut(t, s, c)
		}
		c := conn("part of a sign-in", "ann")
		if err := s.Add(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := s.AddAttempt(t.Context(), attemptOf(c, "state")); err != nil {
			t.Fatal(err)
		}
		edit(t, db, `DELETE FROM secret WHERE connection = ? AND kind = 'client_secret'`, c.ID)
		_, err := s.TakeAttempt(t.Context(), "state")
		if _, ok := errors.AsType[*DamagedError](err); !ok {
			t.Error(err)
		}
	})
	t.Run("setting under another name", func(t *testing.T) {
		if err := s.PutSetting(t.Context(), a, Header, "X-One", "1"); err != nil {
			t.Fatal(err)
		}
		for _, change := range []string{`name = 'X-Two'`, `kind = 'variable'`} {
			edit(t, db, `UPDATE secret SET `+change+` WHERE kind = 'header'`)
		}
		_, err := s.Setting(t.Context(), a, Variable, "X-Two")
		if _, ok := errors.AsType[*DamagedError](err); !ok {
			t.Error(err)
		}
		wantErr(t, err, oauth.ErrNotFound)
	})
	t.Run("setting as a token", func(t *testing.T) {
		edit(t, db, `DELETE FROM secret`)
		if err := s.PutSetting(t.Context(), a, Header, "X-One", "1"); err != nil {
			t.Fatal(err)
		}
		edit(t, db, `UPDATE secret SET kind = 'access', name = ''`)
		damagedThenOut(t, s, a)
	})
	t.Run("client of another issuer", func(t *testing.T) {
		if err := s.PutRegistration(t.Context(), &oauth.Registration{Issuer: "https://a.example", ClientID: "1", Secret: "x"}); err != nil {
			t.Fatal(err)
		}
		edit(t, db, `UPDATE secret SET name = 'https://b.example', issuer = 'https://b.example' WHERE connection = ''`)
		_, err := s.Registration(t.Context(), "https://b.example")
		if _, ok := errors.AsType[*DamagedError](err); !ok || !strings.Contains(err.Error(), "register again") {
			t.Error(err)
		}
		_, err = s.Registration(t.Context(), "https://b.example")
		if _, ok := errors.AsType[*DamagedError](err); ok || !errors.Is(err, oauth.ErrNotFound) {
			t.Errorf("it is not removed: %v", err)
		}
	})
}

// An attempt that was tampered with is used up, and nothing of it is given.
func TestEditedAttempts(t *testing.T) {
	s, path := newStoreAt(t)
	db, c := raw(t, path), conn("c1", "ann")
	if err := s.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for column, change := range edits {
		switch column {
		case "name":
			change = `name = '` + stateName("other") + `'`
		case "kind", "requested":
			continue // it is found by its kind; requested is not part of it, see the others
		}
		for _, where := range []string{"kind = 'verifier'", "kind IN ('verifier', 'client_secret')"} {
			edit(t, db, `DELETE FROM secret`)
			if err := s.AddAttempt(t.Context(), attemptOf(c, "state")); err != nil {
				t.Fatal(err)
			}
			edit(t, db, `UPDATE secret SET `+change+` WHERE `+where)
			state := "state"
			if column == "name" {
				state = "other"
			}
			a, err := s.TakeAttempt(t.Context(), state)
			if _, ok := errors.AsType[*DamagedError](err); !ok || a != nil {
				t.Errorf("%s of %s: %+v, %v", column, where, a, err)
			}
			wantErr(t, err, oauth.ErrNotFound)
			if n := count(t, s, `SELECT count(*) FROM secret WHERE kind = 'verifier'`); n != 0 {
				t.Errorf("%s: the attempt can be tried again", column)
			}
		}
	}
	// A client secret of another attempt.
	edit(t, db, `DELETE FROM secret`)
	for _, state := range []string{"1", "2"} {
		if err := s.AddAttempt(t.Context(), attemptOf(c, state)); err != nil {
			t.Fatal(err)
		}
	}
	edit(t, db, `DELETE FROM secret WHERE kind = 'client_secret' AND name = ?`, stateName("1"))
	edit(t, db, `UPDATE secret SET name = ? WHERE kind = 'client_secret'`, stateName("1"))
	if _, err := s.TakeAttempt(t.Context(), "1"); err == nil {
		t.Error("it has parts of another one")
	}
}
