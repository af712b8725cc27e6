package sqlite

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
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
	if d, ok = errors.AsType[*DamagedError](err); ok || !errors.Is(err, oauth.ErrNotFound) {
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
					// Taken away from the set. Without the refresh token or the
					// client secret it is a smaller set, and no harm.
					edit(t, db, `UPDATE secret SET `+change+` WHERE connection = ? AND `+where, c.ID)
					if where != "kind = 'access'" {
						if _, err := s.Tokens(t.Context(), c); err != nil {
							t.Error(err)
						}
						return
					}
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

// spotted gives the names of the canaries that are in b, in one of the forms in
// which they could have been written.
func spotted(b []byte, canaries map[string]string) (names []string) {
	for name, text := range canaries {
		for _, form := range []string{
			text, hex.EncodeToString([]byte(text)),
			strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(text)), "="),
			strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(text)), "="),
		} {
			if bytes.Contains(b, []byte(form)) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// files are the database and what SQLite keeps beside it.
func files(t testing.TB, path string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err == nil {
			all["host.db"+suffix] = b
		}
	}
	return all
}

// Planted secrets are in no byte of any file, in no error and in no log: while
// they are in use, after a rotation and after they are erased. What was sealed is
// gone from the files too, once it is erased.
func TestNoSecretInTheFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	var log logs
	s := openAt(t, path, &Options{MasterKey: fixed(testKey), Log: log.logger()})
	canaries := make(map[string]string)
	plant := func(name string) string {
		canaries[name] = "canary-" + name + "-" + randomID()
		return canaries[name]
	}
	look := func(when string) {
		t.Helper()
		for name, b := range files(t, path) {
			if found := spotted(b, canaries); found != nil {
				t.Errorf("%s: %s holds %v", when, name, found)
			}
		}
		if found := spotted(log.Bytes(), canaries); found != nil {
			t.Errorf("%s: the log holds %v", when, found)
		}
	}
	var errs []error
	failed := func(err error) {
		t.Helper()
		if err == nil {
			t.Error("no error where one was wanted")
		}
		errs = append(errs, err)
	}

	c := conn("c1", "ann")
	if err := s.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	a := attemptOf(c, plant("state"))
	a.Verifier, a.Client.Secret = oauth.Secret(plant("verifier")), oauth.Secret(plant("attempt client"))
	x := tokensOf(c)
	x.Access, x.Refresh, x.Client.Secret = oauth.Secret(plant("access")), oauth.Secret(plant("refresh")), oauth.Secret(plant("client"))
	r := &oauth.Registration{Issuer: "https://login.example.com", ClientID: "1", Secret: oauth.Secret(plant("registered"))}
	header, variable := oauth.Secret(plant("header")), oauth.Secret(plant("variable"))
	for _, err := range []error{
		s.AddAttempt(t.Context(), a), s.PutRegistration(t.Context(), r),
		s.PutSetting(t.Context(), c, Header, "X-Key", header), s.PutSetting(t.Context(), c, Variable, "key", variable),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.PutTokens(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	look("written")

	_, err := s.PutTokens(t.Context(), x)
	failed(err) // of an old version
	failed(s.AddAttempt(t.Context(), a))
	other := *x
	other.Connection.Endpoint += "/x"
	_, err = s.PutTokens(t.Context(), &other)
	failed(err)
	long := *x
	long.Version, long.Access = 1, oauth.Secret(strings.Repeat(canaries["access"], maxSecret/20))
	_, err = s.PutTokens(t.Context(), &long)
	failed(err)
	edit(t, s.write, `PRAGMA max_page_count = 1`)
	failed(s.PutSetting(t.Context(), c, Header, "X-Other", oauth.Secret(strings.Repeat(header.Reveal(), 2000))))
	edit(t, s.write, `PRAGMA max_page_count = 1000000`)

	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	look("rotated")
	db := raw(t, path)
	edit(t, db, `UPDATE secret SET expires = expires + 1 WHERE kind = 'verifier'`)
	_, err = s.TakeAttempt(t.Context(), a.State)
	failed(err)

	var sealed [][]byte
	err = s.reading(t.Context(), "test", func(t *tx) error {
		rows, err := t.rows(`SELECT ` + rowColumns + ` FROM secret WHERE connection = 'c1'`)
		for _, r := range rows {
			sealed = append(sealed, r.ciphertext)
		}
		return err
	})
	if err != nil || len(sealed) != 5 {
		t.Fatalf("%d rows, %v", len(sealed), err)
	}
	if _, err := s.Kill(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	look("killed")
	if err := s.Erase(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	look("erased")
	for name, b := range files(t, path) {
		for _, c := range sealed {
			if bytes.Contains(b, c) {
				t.Errorf("erased, but %s still has it sealed", name)
			}
		}
		for _, private := range []string{"ann", c.CardURL, c.Endpoint} {
			if bytes.Contains(b, []byte(private)) {
				t.Errorf("erased, but %s still has %q", name, private)
			}
		}
	}
	_, err = s.PutTokens(t.Context(), x)
	failed(err)
	failed(s.PutSetting(t.Context(), c, Header, "X-Key", header))
	for _, err := range errs {
		for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err)} {
			if found := spotted([]byte(text), canaries); found != nil {
				t.Errorf("an error holds %v", found)
			}
		}
	}
}

// Keys print as nothing.
func TestKeysAreHidden(t *testing.T) {
	k := newKey()
	sample := string(k[:])
	for _, v := range []any{k, &k, []key{k}, map[string]key{"x": k}, struct{ K key }{k}} {
		for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%o", "%08b"} {
			got := fmt.Sprintf(form, v)
			if strings.Contains(got, sample) || strings.Contains(got, fmt.Sprint(int(k[0]))+" "+fmt.Sprint(int(k[1]))) ||
				strings.Contains(strings.ToLower(got), hex.EncodeToString(k[:4])) || strings.Contains(got, fmt.Sprintf("%#x", k[0])) {
				t.Errorf("%s of %T shows it", form, v)
			}
		}
	}
	var log logs
	log.logger().Info("x", "key", k)
	if b, err := k.MarshalText(); err != nil || string(b) != hidden || !strings.Contains(log.String(), hidden) {
		t.Errorf("%s, %v, %s", b, err, log.String())
	}
}

func FuzzUnseal(f *testing.F) {
	data := key{7}
	good := of(conn("c1", "ann"), access)
	if err := good.seal("k", data, "the text"); err != nil {
		f.Fatal(err)
	}
	f.Add(good.user, good.name, good.endpoint, good.version, good.salt, good.nonce, good.ciphertext)
	f.Add("an", "n", good.endpoint, good.version, good.salt, good.nonce, good.ciphertext)
	f.Add("", "", "", int64(-1), []byte(nil), []byte(nil), []byte(nil))
	f.Add("ann", "", "", int64(0), good.salt[:15], good.nonce, good.ciphertext[:15])
	f.Fuzz(func(t *testing.T, user, name, endpoint string, version int64, salt, nonce, ciphertext []byte) {
		r := *good
		r.user, r.name, r.endpoint, r.version, r.salt, r.nonce, r.ciphertext = user, name, endpoint, version, salt, nonce, ciphertext
		text, err := r.unseal(data)
		untouched := user == good.user && name == good.name && endpoint == good.endpoint && version == good.version &&
			bytes.Equal(salt, good.salt) && bytes.Equal(nonce, good.nonce) && bytes.Equal(ciphertext, good.ciphertext)
		if untouched != (err == nil) || (err == nil && text != "the text") || (err != nil && (text != "" || !errors.Is(err, errSealed))) {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := data.unwrap(user, name, ciphertext); !errors.Is(err, errSealed) {
			t.Errorf("unwrap: %v", err)
		}
	})
}
