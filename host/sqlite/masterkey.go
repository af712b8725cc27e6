package sqlite

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// MasterKey says where the master key of a store is kept. It holds no key
// itself, and prints as the name of the place.
//
// The keyring and the file are written by the store: it makes a key there for a
// new database, and Rotate replaces it. Both hold the key of one database, and say
// so when they are given to another one. Back the key up apart from the database:
// without it every user has to sign in anew.
type MasterKey struct{ source source }

// String names the place.
func (m *MasterKey) String() string { return m.source.String() }

// Format implements fmt.Formatter for every verb; it gives String.
func (m *MasterKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }

// LogValue implements slog.LogValuer; it gives String.
func (m *MasterKey) LogValue() slog.Value { return slog.StringValue(m.String()) }

// source is a place for master keys. store is the id of the database.
type source interface {
	// String names it in errors.
	String() string

	// load gives the keys that are there, the newest first: none is no error.
	// Keys may come together with an error, of a part that could not be asked.
	load(ctx context.Context, store string) ([]key, error)

	// first gives the key of a new database, and makes one if there is none.
	first(ctx context.Context, store string) (key, error)

	// next gives the key that is to replace current, and keeps it safe beside
	// current. Asked again it gives the same, until promote.
	next(ctx context.Context, store string, current key) (key, error)

	// promote makes k the only key, if it is the one that next gave.
	promote(ctx context.Context, store string, k key) error
}

// DefaultMasterKey is the keyring of the operating system, under the service name
// "openbot-host", or where there is none KeyFile(path). A keyring that is locked, or
// that its user does not let the program use, is an error, and never a reason to
// write a file. A database that has a key in either place goes on with that; Open
// logs where it puts a new one.
func DefaultMasterKey(path string) *MasterKey {
	return &MasterKey{either{Keyring("openbot-host").source, KeyFile(path).source}}
}

// Environment is an environment variable, which lookup reads (os.LookupEnv). It
// holds 32 bytes in standard base64, such as "openssl rand -base64 32" prints.
// While keys are rotated it holds the new one, a comma, and the old one.
func Environment(name string, lookup func(string) (string, bool)) *MasterKey {
	return &MasterKey{given{"the environment variable " + name, func(context.Context) ([][]byte, error) {
		text, ok := lookup(name)
		if !ok || strings.TrimSpace(text) == "" {
			return nil, errors.New("it is not set; give it 32 random bytes in base64, for instance of: openssl rand -base64 32")
		}
		var keys [][]byte
		for part := range strings.SplitSeq(text, ",") {
			b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(part))
			if err != nil {
				return nil, errors.New("it is not base64")
			}
			keys = append(keys, b)
		}
		return keys, nil
	}}}
}

// KeyFunc asks keys, for instance of a key management service: the key first,
// and while keys are rotated the old one after it, 32 bytes each. name names the
// place in errors. keys is called when the store is opened, and when keys are
// rotated by this or another process.
func KeyFunc(name string, keys func(context.Context) ([][]byte, error)) *MasterKey {
	return &MasterKey{given{name, keys}}
}

// given are keys that somebody else keeps.
type given struct {
	name string
	keys func(context.Context) ([][]byte, error)
}

func (g given) String() string { return g.name }

func (g given) load(ctx context.Context, _ string) ([]key, error) {
	all, err := g.keys(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]key, len(all))
	for i, b := range all {
		if len(b) != keyBytes {
			return nil, fmt.Errorf("key %d has %d bytes, it must have %d", i+1, len(b), keyBytes)
		}
		keys[i] = key(b)
		if keys[i] == (key{}) {
			return nil, fmt.Errorf("key %d is all zeros; give random bytes", i+1)
		}
	}
	return keys, nil
}

func (g given) first(ctx context.Context, store string) (key, error) {
	keys, err := g.load(ctx, store)
	if err != nil {
		return key{}, err
	}
	if len(keys) == 0 {
		return key{}, errors.New("it gives no key")
	}
	return keys[0], nil
}

func (g given) next(ctx context.Context, store string, _ key) (key, error) {
	return g.first(ctx, store)
}

func (g given) promote(context.Context, string, key) error { return nil }

// either are two places: a keyring, and one for where there is none.
type either struct{ a, b source }

func (e either) String() string { return e.a.String() + " or " + e.b.String() }

func (e either) load(ctx context.Context, store string) ([]key, error) {
	a, errA := e.a.load(ctx, store)
	b, errB := e.b.load(ctx, store)
	return append(a, b...), errors.Join(errA, errB)
}

func (e either) first(ctx context.Context, store string) (key, error) {
	// A key that waits in the second place is not passed over.
	if b, err := e.b.load(ctx, store); err == nil && len(b) > 0 {
		return b[0], nil
	}
	k, errA := e.a.first(ctx, store)
	switch {
	case errA == nil:
		return k, nil
	case ctx.Err() != nil: // it still waits for its user
		return key{}, errA
	case !noKeyring(errA): // for the database's whole life the key would be in the lesser place
		return key{}, fmt.Errorf("%w; unlock it and let this program use it, or choose a file for the key", errA)
	}
	k, errB := e.b.first(ctx, store)
	if errB != nil {
		return key{}, errors.Join(errA, errB)
	}
	return k, nil
}

func (e either) next(ctx context.Context, store string, current key) (key, error) {
	s, err := e.holder(ctx, store, current)
	if err != nil {
		return key{}, err
	}
	return s.next(ctx, store, current)
}

func (e either) promote(ctx context.Context, store string, k key) error {
	s, err := e.holder(ctx, store, k)
	if err != nil {
		return err
	}
	return s.promote(ctx, store, k)
}

// holder is the one of both that has k.
func (e either) holder(ctx context.Context, store string, k key) (source, error) {
	var errs []error
	for _, s := range []source{e.a, e.b} {
		keys, err := s.load(ctx, store)
		if slices.Contains(keys, k) {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("the key is gone meanwhile: %w", errors.Join(errs...))
}

// kept are keys that the store keeps itself, in two slots.
type kept struct{ slots }

// slots hold two records. Only one process writes at a time.
type slots interface {
	String() string
	// read gives "" for an empty slot.
	read(ctx context.Context, slot slot) (string, error)
	// write fills a slot that was read as empty, and lasts when it returns.
	write(ctx context.Context, slot slot, text string) error
	// move moves the record of the slot pending to the slot inUse, and leaves pending
	// empty. At no moment the record is in neither.
	move(ctx context.Context) error
}

type slot int

const (
	inUse slot = iota
	pending
)

// The records name their database, so that one key never serves two: the rotation
// of one would lock the other out.
const recordHead = "openbot-master-key-1"

func record(store string, k key) string {
	return recordHead + " " + store + " " + base64.StdEncoding.EncodeToString(k[:])
}

func (s kept) get(ctx context.Context, which slot, store string) (k key, ok bool, err error) {
	text, err := s.read(ctx, which)
	if err != nil || text == "" {
		return key{}, false, err
	}
	fields := strings.Fields(text)
	if len(fields) != 3 || fields[0] != recordHead {
		return key{}, false, errors.New("what is there is no master key of a host; give another place")
	}
	if fields[1] != store {
		return key{}, false, errors.New("the key there is another database's; give each database its own, or take this one away if its database is gone")
	}
	b, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil || len(b) != keyBytes {
		return key{}, false, errors.New("the key there is damaged; give it back from a backup")
	}
	return key(b), true, nil
}

func (s kept) load(ctx context.Context, store string) (keys []key, err error) {
	for _, which := range []slot{pending, inUse} {
		k, ok, err := s.get(ctx, which, store)
		if err != nil {
			return nil, err
		}
		if ok {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

func (s kept) first(ctx context.Context, store string) (key, error) { return s.make(ctx, inUse, store) }

func (s kept) next(ctx context.Context, store string, _ key) (key, error) {
	return s.make(ctx, pending, store)
}

// make gives the key in a slot, and puts one there if it is empty.
func (s kept) make(ctx context.Context, which slot, store string) (key, error) {
	k, ok, err := s.get(ctx, which, store)
	if err != nil || ok {
		return k, err
	}
	k = newKey()
	if err := s.write(ctx, which, record(store, k)); err != nil {
		return key{}, err
	}
	// What cannot be read back must not seal anything.
	back, ok, err := s.get(ctx, which, store)
	if err != nil {
		return key{}, err
	}
	if !ok || back != k {
		return key{}, errors.New("a key that was written there is not what is read back")
	}
	return k, nil
}

func (s kept) promote(ctx context.Context, store string, k key) error {
	next, ok, err := s.get(ctx, pending, store)
	if err != nil || !ok || next != k {
		return err
	}
	return s.move(ctx)
}
