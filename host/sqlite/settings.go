package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/openbot-build/openbot-go/oauth"
)

// Kind is what a secret is.
type Kind string

// The kinds of secret settings: inputs of a card that are marked isSecret.
const (
	Header   Kind = "header"
	Variable Kind = "variable"
)

const (
	access       Kind = "access"
	refresh      Kind = "refresh"
	clientSecret Kind = "client_secret"
	verifier     Kind = "verifier"
)

// PutSetting writes a secret setting of a connection, which is its user's alone
// (O6), or replaces it. kind is Header or Variable; names are compared byte for
// byte. The error is oauth.ErrGone when the connection is not there, and
// oauth.ErrReview when its user, card or endpoint is another one.
func (s *Store) PutSetting(ctx context.Context, c oauth.Connection, kind Kind, name string, value oauth.Secret) error {
	if err := checkSetting(kind, name); err != nil {
		return fmt.Errorf("write setting: %w", err)
	}
	return s.writing(ctx, "write setting", func(t *tx) error {
		if _, err := t.live(c); err != nil {
			return err
		}
		if err := t.removeSetting(c, kind, name); err != nil {
			return err
		}
		r := of(c, kind)
		r.name = name
		return t.put(r, value.Reveal())
	})
}

// Setting gives a secret setting. The errors are those of PutSetting, and
// oauth.ErrNotFound when it is not set. One that is bound to another card or
// endpoint, or that does not open (*DamagedError), is removed.
func (s *Store) Setting(ctx context.Context, c oauth.Connection, kind Kind, name string) (value oauth.Secret, err error) {
	if err := checkSetting(kind, name); err != nil {
		return "", fmt.Errorf("read setting: %w", err)
	}
	err = s.guarded(ctx, "read setting", func(t *tx) error {
		if _, err := t.live(c); err != nil {
			return err
		}
		rows, err := t.rows(`SELECT `+rowColumns+` FROM secret WHERE connection = ? AND kind = ? AND name = ?`, c.ID, string(kind), name)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return oauth.ErrNotFound
		}
		text, err := t.open(rows[0])
		if err != nil {
			return err
		}
		value = oauth.Secret(text)
		return rows[0].belongs(c)
	}, func(t *tx) error { return t.removeSetting(c, kind, name) })
	if err != nil {
		return "", err
	}
	return value, nil
}

// DeleteSetting removes a secret setting. One that is not set is no error; the
// errors are those of PutSetting.
func (s *Store) DeleteSetting(ctx context.Context, c oauth.Connection, kind Kind, name string) error {
	if err := checkSetting(kind, name); err != nil {
		return fmt.Errorf("delete setting: %w", err)
	}
	return s.writing(ctx, "delete setting", func(t *tx) error {
		if _, err := t.live(c); err != nil {
			return err
		}
		t.removed = true
		return t.removeSetting(c, kind, name)
	})
}

func (t *tx) removeSetting(c oauth.Connection, kind Kind, name string) error {
	return t.exec(`DELETE FROM secret WHERE connection = ? AND kind = ? AND name = ?`, c.ID, string(kind), name)
}

func checkSetting(kind Kind, name string) error {
	if kind != Header && kind != Variable {
		return fmt.Errorf("%q is no kind of setting", string(kind))
	}
	if name == "" {
		return errors.New("it has no name")
	}
	return nil
}
