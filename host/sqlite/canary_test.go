package sqlite

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
