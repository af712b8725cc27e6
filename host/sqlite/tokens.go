package sqlite

import (
	"context"
	"maps"
	"slices"

	"github.com/openbot-build/openbot-go/oauth"
)

// selectTokens finds the rows of a connection's tokens, the access token first.
const selectTokens = `SELECT ` + rowColumns + ` FROM secret
	WHERE connection = ? AND kind IN ('access', 'refresh', 'client_secret') AND name = '' ORDER BY kind`

// tokens gives the tokens of a connection as it is in the table. The error is oauth.ErrNotFound, or one that spoiled knows.
func (t *tx) tokens(c *connection) (*oauth.Tokens, error) {
	rows, err := t.rows(selectTokens, c.ID)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, oauth.ErrNotFound
	}
	first := rows[0]
	texts, err := t.set(rows, access)
	if err != nil {
		return nil, err
	}
	if err := first.belongs(c.Connection); err != nil { // and so do the others
		return nil, err
	}
	if first.version != c.version { // put back from an earlier day
		return nil, &DamagedError{Connection: c.ID, Kind: access}
	}
	scopes, errScopes := fromList(first.scopes)
	requested, errRequested := fromList(first.requested)
	if errScopes != nil || errRequested != nil { // sealed by a program that wrote it differently
		return nil, &DamagedError{Connection: c.ID, Kind: access}
	}
	return &oauth.Tokens{
		Connection: c.Connection,
		Client: oauth.Registration{
			Issuer: first.issuer, ClientID: first.clientID, Secret: texts[clientSecret],
			AuthMethod: first.authMethod, Expires: fromMicro(first.clientExpires),
		},
		Access: texts[access], Expires: fromMicro(first.expires), Refresh: texts[refresh],
		Scopes: scopes, Requested: requested, Resource: first.resource,
		TokenEndpoint: first.tokenEndpoint, RevocationEndpoint: first.revocationEndpoint, Version: first.version,
	}, nil
}

// set opens the rows of one set, of which the first must be of the kind main. All
// that were written must be there, and no other.
func (t *tx) set(rows []*row, main Kind) (map[Kind]oauth.Secret, error) {
	first := rows[0]
	texts := make(map[Kind]oauth.Secret, len(rows))
	for _, r := range rows {
		text, err := t.open(r)
		if err != nil {
			return nil, err
		}
		if !r.together(first) { // parts of two different sets
			return nil, &DamagedError{Connection: r.connection, Kind: Kind(r.kind)}
		}
		texts[Kind(r.kind)] = oauth.Secret(text)
	}
	if Kind(first.kind) != main || first.parts != kinds(texts) { // some were taken away
		return nil, &DamagedError{Connection: first.connection, Kind: main}
	}
	return texts, nil
}

// kinds names the parts of a set, in one order.
func kinds(texts map[Kind]oauth.Secret) (parts string) {
	for i, kind := range slices.Sorted(maps.Keys(texts)) {
		if i > 0 {
			parts += " "
		}
		parts += string(kind)
	}
	return parts
}

// putSet writes the rows of one set, which are like r. Only the text of the kind
// main may be empty; a row is written for it all the same.
func (t *tx) putSet(r *row, main Kind, texts map[Kind]oauth.Secret) error {
	maps.DeleteFunc(texts, func(kind Kind, text oauth.Secret) bool { return text == "" && kind != main })
	for _, kind := range slices.Sorted(maps.Keys(texts)) {
		part := *r
		part.kind, part.parts = string(kind), kinds(texts)
		if err := t.put(&part, texts[kind].Reveal()); err != nil {
			return err
		}
	}
	return nil
}

// together reports whether two rows were written as one set: all that they are
// bound to is equal, but what they are. The data key differs while keys rotate.
func (r *row) together(other *row) bool {
	a, b := *r, *other
	a.kind, b.kind = "", ""
	a.keyID, b.keyID = "", ""
	return slices.Equal(bind(a.bound()...), bind(b.bound()...))
}

func (t *tx) removeTokens(id string) error {
	return t.exec(`DELETE FROM secret WHERE connection = ? AND kind IN ('access', 'refresh', 'client_secret') AND name = ''`, id)
}

// stored gives the version of the tokens that are there; 0 when none are.
func (t *tx) stored(id string) (version int64, err error) {
	err = t.QueryRowContext(t.ctx,
		`SELECT coalesce(max(version), 0) FROM secret WHERE connection = ? AND kind = 'access' AND name = ''`, id).Scan(&version)
	return version, err
}

// Tokens implements oauth.Store. A *DamagedError, which is an oauth.ErrNotFound
// too, tells that there were some, but that they did not open.
func (s *Store) Tokens(ctx context.Context, c oauth.Connection) (found *oauth.Tokens, err error) {
	err = s.guarded(ctx, "read tokens", func(t *tx) error {
		found = nil
		have, err := t.live(c)
		if err == nil {
			found, err = t.tokens(have)
		}
		return err
	}, func(t *tx) error { return t.removeTokens(c.ID) })
	if err != nil {
		return nil, err
	}
	return found, nil
}

// PutTokens implements oauth.Store. All of t is written in one transaction,
// which is on the disk when it returns: a refresh token is safe before its
// access token is used. No version is ever given twice to one connection, so that
// a late refresh cannot pass for one of a later sign-in.
func (s *Store) PutTokens(ctx context.Context, t *oauth.Tokens) (version int64, err error) {
	c := t.Connection
	err = s.writing(ctx, "write tokens", func(x *tx) error {
		have, err := x.live(c)
		if err != nil {
			return err
		}
		stored, err := x.stored(c.ID)
		if err != nil {
			return err
		}
		if stored != t.Version {
			return oauth.ErrConflict
		}
		version = max(have.version, stored) + 1
		if err := x.exec(`UPDATE connection SET version = ? WHERE id = ?`, version, c.ID); err != nil {
			return err
		}
		if err := x.removeTokens(c.ID); err != nil {
			return err
		}
		r := of(c, access)
		r.ofClient(&t.Client)
		r.resource, r.tokenEndpoint, r.revocationEndpoint = t.Resource, t.TokenEndpoint, t.RevocationEndpoint
		r.scopes, r.requested = list(t.Scopes), list(t.Requested)
		r.expires, r.version = micro(t.Expires), version
		return x.putSet(r, access, map[Kind]oauth.Secret{access: t.Access, refresh: t.Refresh, clientSecret: t.Client.Secret})
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

func (r *row) ofClient(c *oauth.Registration) {
	r.issuer, r.clientID, r.authMethod, r.clientExpires = c.Issuer, c.ClientID, c.AuthMethod, micro(c.Expires)
}

// RemoveTokens implements oauth.Store. Tokens of another version are
// oauth.ErrConflict; none at all is no error.
func (s *Store) RemoveTokens(ctx context.Context, c oauth.Connection, version int64) error {
	return s.writing(ctx, "remove tokens", func(t *tx) error {
		if _, err := t.live(c); err != nil {
			return err
		}
		stored, err := t.stored(c.ID)
		switch {
		case err != nil || stored == 0:
			return err
		case stored != version:
			return oauth.ErrConflict
		}
		t.removed = true
		return t.removeTokens(c.ID)
	})
}
