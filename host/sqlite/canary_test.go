package sqlite

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
)

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

// While somebody reads the database its log cannot be emptied. What was deleted
// meanwhile leaves the files with a later write, and nobody waits for the reader:
// this store would for a day.
func TestDeletedLeavesTheLogLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	o := &Options{MasterKey: fixed(testKey), BusyTimeout: 24 * time.Hour}
	s, c := openAt(t, path, o), conn("c1", "ann")
	x := signedIn(t, s, c)
	ciphertexts := func() (all [][]byte) {
		t.Helper()
		err := s.reading(t.Context(), "test", func(t *tx) error {
			rows, err := t.rows(`SELECT ` + rowColumns + ` FROM secret`)
			for _, r := range rows {
				all = append(all, r.ciphertext)
			}
			return err
		})
		if err != nil || len(all) == 0 {
			t.Fatalf("%d rows, %v", len(all), err)
		}
		return all
	}
	holds := func(all [][]byte) bool {
		for _, b := range files(t, path) {
			for _, c := range all {
				if bytes.Contains(b, c) {
					return true
				}
			}
		}
		return false
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	reader := raw(t, path)
	for what, remove := range map[string]struct{ write, remove func() error }{
		"tokens": {
			func() (err error) {
				if x.Version, err = s.PutTokens(t.Context(), x); errors.Is(err, oauth.ErrConflict) {
					x.Version, err = s.PutTokens(t.Context(), tokensOf(c))
				}
				return err
			},
			func() error { return s.RemoveTokens(t.Context(), c, x.Version) },
		},
		"setting": {
			func() error { return s.PutSetting(t.Context(), c, Header, "X-Key", "1") },
			func() error { return s.DeleteSetting(t.Context(), c, Header, "X-Key") },
		},
		"attempt": {
			func() error { return s.AddAttempt(t.Context(), attemptOf(c, "state")) },
			func() error { _, err := s.TakeAttempt(t.Context(), "state"); return err },
		},
		"damaged": {
			func() error {
				err := s.PutSetting(t.Context(), c, Header, "X-Bad", "1")
				edit(t, s.write, `UPDATE secret SET expires = 1 WHERE name = 'X-Bad'`)
				return err
			},
			func() error {
				if _, err := s.Setting(t.Context(), c, Header, "X-Bad"); !errors.Is(err, oauth.ErrNotFound) {
					return fmt.Errorf("it was read: %w", err)
				}
				return nil
			},
		},
	} {
		edit(t, s.write, `DELETE FROM secret`)
		must(remove.write())
		gone := ciphertexts()
		must(remove.remove())
		if holds(gone) {
			t.Errorf("%s: removed, but still in the files", what)
		}
	}

	signedIn(t, s, conn("c2", "ann"))
	gone := ciphertexts()
	edit(t, reader, `BEGIN`)
	edit(t, reader, `SELECT count(*) FROM secret`)
	if _, err := s.Kill(t.Context(), conn("c2", "ann")); err != nil {
		t.Fatal(err)
	}
	must(s.Erase(t.Context(), conn("c2", "ann")))
	if !holds(gone) {
		t.Fatal("the reader is in nobody's way")
	}
	must(s.Add(t.Context(), conn("c3", "ann"))) // nor is it in the way of writers
	edit(t, reader, `ROLLBACK`)
	must(s.Add(t.Context(), conn("c4", "ann")))
	if holds(gone) {
		t.Error("erased, but still in the files after a later write")
	}
	if n := count(t, s, `SELECT timeout FROM pragma_busy_timeout`); n != int(o.BusyTimeout.Milliseconds()) {
		t.Errorf("writers wait for %d ms now", n)
	}

	// Closing does not wait either, and the next opening does what is left.
	second, err := Open(t.Context(), path, o)
	must(err)
	signedIn(t, second, conn("c5", "ann"))
	gone = ciphertexts()
	edit(t, reader, `BEGIN`)
	edit(t, reader, `SELECT count(*) FROM secret`)
	_, err = second.Kill(t.Context(), conn("c5", "ann"))
	must(err)
	must(second.Erase(t.Context(), conn("c5", "ann")))
	must(second.Close())
	edit(t, reader, `ROLLBACK`)
	if !holds(gone) {
		t.Fatal("the reader is in nobody's way")
	}
	openAt(t, path, o)
	if holds(gone) {
		t.Error("erased, but still in the files after another opening")
	}
}

// A store prints as its file, whoever prints it and however: it holds data keys.
func TestStoreIsHidden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	s := openAt(t, path, inFile(path))
	fill(t, s, 1)
	if len(s.keys.byID) != 1 {
		t.Fatal("it holds no key")
	}
	master := inFile(path).MasterKey
	var text bytes.Buffer
	for _, v := range []any{
		s, struct{ S *Store }{s}, struct{ s *Store }{s}, []*Store{s}, reflect.ValueOf(s).Elem(), // the last: without its methods
		master, struct{ K *MasterKey }{master}, &Options{MasterKey: master},
	} {
		for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&text, form+"\n", v)
		}
		for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&text, nil)} {
			slog.New(h).Info("x", "v", v)
		}
	}
	for _, data := range s.keys.byID {
		k := data()
		for _, form := range []string{"%s", "%x", "%X", "%v", "%#v"} {
			got := strings.Trim(fmt.Sprintf(form, k[:4]), "[]{}")
			got = strings.TrimPrefix(got, "byte{")
			if got = strings.TrimPrefix(got, "[]byte{"); strings.Contains(text.String(), got) {
				t.Errorf("a data key is printed (%s)", form)
			}
		}
		if b := text.Bytes(); bytes.Contains(b, k[:]) {
			t.Error("a data key is printed")
		}
	}
	if got := fmt.Sprintf("%v %+v %#v", s, s, s); got != strings.TrimSpace(strings.Repeat("host store "+path+" ", 3)) {
		t.Errorf("it prints as %s", got)
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
