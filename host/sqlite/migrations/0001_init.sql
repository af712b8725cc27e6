-- +goose Up

-- Times are microseconds since 1970, UTC; 0 is "no time". Lists are JSON.

-- "OBho": tells this database from those of other programs.
PRAGMA application_id = 1329752175;

-- One row. The id tells which database a master key belongs to.
CREATE TABLE store (
  id TEXT NOT NULL
) STRICT;
INSERT INTO store (id) VALUES (lower(hex(randomblob(16))));

-- Data keys, each wrapped by the master key. Rows are sealed with the current
-- one; others are there until the last row sealed with them is sealed anew.
CREATE TABLE data_key (
  id        TEXT PRIMARY KEY,
  current   INTEGER NOT NULL CHECK (current IN (0, 1)),
  master    TEXT NOT NULL,          -- fingerprint of the master key
  source    TEXT NOT NULL,          -- where that was kept, in words
  wrapped   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX data_key_current ON data_key (current) WHERE current = 1;

-- What became of every connection there ever was. Of one that was erased only
-- the id is left, so that it never comes back.
CREATE TABLE connection (
  id       TEXT PRIMARY KEY CHECK (id <> ''),
  state    INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2), -- 0 live, 1 dead, 2 erased
  user     TEXT NOT NULL,
  card_url TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  version  INTEGER NOT NULL DEFAULT 0,                     -- the last that its tokens had
  died     INTEGER NOT NULL DEFAULT 0                      -- when it was killed
) STRICT, WITHOUT ROWID;

-- One sealed text. All columns but id, salt, nonce and ciphertext are its
-- associated data: it opens only where it was written and as it was written.
CREATE TABLE secret (
  id                  INTEGER PRIMARY KEY,
  format              INTEGER NOT NULL,
  key_id              TEXT NOT NULL REFERENCES data_key (id),
  connection          TEXT NOT NULL,           -- '': a client registered at an issuer
  user                TEXT NOT NULL,
  kind                TEXT NOT NULL CHECK (kind IN ('access', 'refresh', 'client_secret', 'verifier', 'header', 'variable')),
  -- Of a header or variable, its name; of a sign-in that is under way, the
  -- SHA-256 of its state; of a registered client, its issuer; else ''.
  name                TEXT NOT NULL,
  -- The kinds of all rows that were written together with this one.
  parts               TEXT NOT NULL,
  card_url            TEXT NOT NULL,
  endpoint            TEXT NOT NULL,
  issuer              TEXT NOT NULL,
  resource            TEXT NOT NULL,
  client_id           TEXT NOT NULL,
  auth_method         TEXT NOT NULL,
  client_expires      INTEGER NOT NULL,
  token_endpoint      TEXT NOT NULL,
  revocation_endpoint TEXT NOT NULL,
  redirect_uri        TEXT NOT NULL,
  iss_advertised      INTEGER NOT NULL,
  scopes              TEXT NOT NULL,
  requested           TEXT NOT NULL,
  expires             INTEGER NOT NULL,
  version             INTEGER NOT NULL,
  salt                BLOB NOT NULL,
  nonce               BLOB NOT NULL,
  ciphertext          BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX secret_place ON secret (connection, kind, name);
CREATE UNIQUE INDEX secret_state ON secret (name) WHERE kind = 'verifier';
CREATE INDEX connection_died ON connection (died) WHERE state = 1;
CREATE INDEX secret_expires ON secret (expires) WHERE kind = 'verifier';
CREATE INDEX secret_key ON secret (key_id);

-- Who may refresh the tokens of a connection.
CREATE TABLE lease (
  connection TEXT PRIMARY KEY,
  holder     TEXT NOT NULL,
  since      INTEGER NOT NULL,
  until      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
