package sqlite

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"sync"
)

// keys are the data keys of a store, as far as this process knows them. Another
// process may have added one.
type keys struct {
	mu   sync.Mutex
	byID map[string]func() key // fmt never looks into a func; into pointers it does
}

func (k *keys) get(id string) (data key, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if data, ok := k.byID[id]; ok {
		return data(), true
	}
	return key{}, false
}

// learn adds keys and forgets none: a reader that looks at an older state of the
// database must not take away what a writer has just read in a newer one.
func (k *keys) learn(byID map[string]key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil {
		k.byID = make(map[string]func() key)
	}
	for id, data := range byID {
		k.byID[id] = func() key { return data }
	}
}

// forgetOthers drops all keys but one.
func (k *keys) forgetOthers(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.byID, func(other string, _ func() key) bool { return other != id })
}

// wrapped is one row of the table data_key.
type wrapped struct {
	id      string
	current bool
	master  string
	source  string
	sealed  []byte
}

func (t *tx) wrapped() (all []wrapped, err error) {
	rows, err := t.QueryContext(t.ctx, `SELECT id, current, master, source, wrapped FROM data_key`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var w wrapped
		if err := rows.Scan(&w.id, &w.current, &w.master, &w.source, &w.sealed); err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, rows.Err()
}

// unlock learns the data keys, and makes the first ones of a new database.
func (s *Store) unlock(ctx context.Context) error {
	var some bool
	var master key
	err := s.looking(ctx, "read keys", func(t *tx) error {
		all, err := t.wrapped()
		if some = len(all) > 0; err == nil && some {
			master, _, err = s.unwrap(ctx, all)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !some {
		return s.writing(ctx, "make keys", (*tx).makeKeys)
	}
	return s.promote(ctx, master) // of a rotation that died before
}

// makeKeys makes the keys of a database that has none.
func (t *tx) makeKeys() error {
	all, err := t.wrapped()
	if err != nil {
		return err
	}
	if len(all) > 0 { // made by another process meanwhile
		_, _, err := t.store.unwrap(t.ctx, all)
		return err
	}
	var secrets bool
	if err := t.QueryRowContext(t.ctx, `SELECT EXISTS (SELECT 1 FROM secret)`).Scan(&secrets); err != nil {
		return err
	}
	if secrets {
		return fmt.Errorf("%w: its data keys are missing; restore a backup", ErrCorrupt)
	}
	master, err := t.store.master.first(t.ctx, t.store.id)
	if err != nil {
		return masterKeyError(t.store.master, err)
	}
	place := t.store.master
	if e, ok := place.(either); ok {
		if place, err = e.holder(t.ctx, t.store.id, master); err != nil {
			return masterKeyError(t.store.master, err)
		}
	}
	t.store.log.Info("a new host store; back its master key up", "path", t.store.path, "key_in", place.String())
	return t.addKey(master)
}

// addKey makes a new data key the current one.
func (t *tx) addKey(master key) error {
	id, data := randomID(), newKey()
	if err := t.exec(`UPDATE data_key SET current = 0`); err != nil {
		return err
	}
	sealed, err := master.wrap(t.store.id, id, data)
	if err != nil {
		return err
	}
	if err := t.exec(`INSERT INTO data_key (id, current, master, source, wrapped) VALUES (?, 1, ?, ?, ?)`,
		id, master.fingerprint(), t.store.master.String(), sealed); err != nil {
		return err
	}
	t.store.keys.learn(map[string]key{id: data}) // if there is no commit, no row ever names it
	return nil
}

// unwrap learns the data keys in all, and gives them by their ids with the master
// key that opens them.
func (s *Store) unwrap(ctx context.Context, all []wrapped) (master key, byID map[string]key, err error) {
	held, err := s.master.load(ctx, s.id)
	if err != nil && len(held) == 0 {
		return key{}, nil, masterKeyError(s.master, err)
	}
	byFingerprint := make(map[string]key, len(held))
	for _, k := range held {
		byFingerprint[k.fingerprint()] = k
	}
	byID = make(map[string]key, len(all))
	for _, w := range all {
		k, ok := byFingerprint[w.master]
		if !ok {
			return key{}, nil, s.wrongKey(len(held) == 0, w.source, err)
		}
		if byID[w.id], err = k.unwrap(s.id, w.id, w.sealed); err != nil {
			return key{}, nil, fmt.Errorf("%w: a data key was edited, or comes from another database; restore a backup", ErrCorrupt)
		}
		master = k
	}
	s.keys.learn(byID)
	return master, byID, nil
}

// wrongKey is the error for a file that is sealed with another master key than
// there is.
func (s *Store) wrongKey(none bool, sealedWith string, cause error) error {
	what := "is another one than the database is sealed with"
	if none {
		what = "is not there, but the database is sealed with one"
	}
	was := ""
	if sealedWith != s.master.String() {
		was = fmt.Sprintf(" (it was kept in %s)", sealedWith)
	}
	err := fmt.Errorf("%w: the one in %s %s%s; give that key back from a backup, or move the database away and sign in anew everywhere; nothing was changed",
		ErrMasterKey, s.master, what, was)
	if cause != nil {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

func masterKeyError(s source, cause error) error {
	if errors.Is(cause, ErrMasterKey) {
		return cause
	}
	return fmt.Errorf("%w: %s: %w; nothing was changed", ErrMasterKey, s, cause)
}

// current gives the data key that rows are sealed with. The transaction is a
// writing one, so that no other process replaces it meanwhile.
func (t *tx) current() (id string, data key, err error) {
	if err := t.QueryRowContext(t.ctx, `SELECT id FROM data_key WHERE current = 1`).Scan(&id); err != nil {
		return "", key{}, err
	}
	data, err = t.key(id)
	if errors.Is(err, errSealed) {
		err = fmt.Errorf("%w: a data key is missing; restore a backup", ErrCorrupt)
	}
	return id, data, err
}

// key gives a data key, errSealed when there is none of that name.
func (t *tx) key(id string) (key, error) {
	if data, ok := t.store.keys.get(id); ok {
		return data, nil
	}
	// Another process has rotated.
	all, err := t.wrapped()
	if err != nil {
		return key{}, err
	}
	for _, w := range all {
		if w.id != id {
			continue
		}
		_, byID, err := t.store.unwrap(t.ctx, all)
		if err != nil {
			return key{}, err
		}
		return byID[id], nil // unwrap has an error when it misses one
	}
	return key{}, errSealed
}

// put seals a row and writes it; the text is secret.
func (t *tx) put(r *row, text string) error {
	id, data, err := t.current()
	if err != nil {
		return err
	}
	if err := r.seal(id, data, text); err != nil {
		return err
	}
	return t.exec(insertRow, r.values()...)
}

// rows gives the rows that a query with rowColumns finds.
func (t *tx) rows(query string, args ...any) (found []*row, err error) {
	rows, err := t.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r := new(row)
		if err := rows.Scan(r.columns()...); err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

// open gives the text of a row, or a *DamagedError.
func (t *tx) open(r *row) (string, error) {
	data, err := t.key(r.keyID)
	if err == nil {
		var text string
		if text, err = r.unseal(data); err == nil {
			return text, nil
		}
	}
	if !errors.Is(err, errSealed) {
		return "", err
	}
	d := &DamagedError{Connection: r.connection, Kind: Kind(r.kind)}
	if r.connection == "" || r.kind == string(Header) || r.kind == string(Variable) {
		d.Name = r.name
	}
	return "", d
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
