-- +goose Up

-- Times are microseconds since 1970, UTC; 0 is "no time". Durations are
-- microseconds. Lists are lines that each end in a newline; '' is the empty
-- list. Big columns stand last, so that the others are read without them.

-- "OBix": tells this database from those of other programs.
PRAGMA application_id = 1329752440;

-- One authority. It is the lease.
CREATE TABLE host (
  id                 INTEGER PRIMARY KEY,
  name               TEXT NOT NULL UNIQUE,
  domain             TEXT NOT NULL,
  found_by           TEXT NOT NULL,
  first_seen         INTEGER NOT NULL,
  class              INTEGER NOT NULL DEFAULT 3 CHECK (class BETWEEN 0 AND 3),
  next_at            INTEGER,                      -- its next due document's, never before not_before; NULL: none
  not_before         INTEGER NOT NULL DEFAULT 0,
  owner              TEXT NOT NULL DEFAULT '',
  lease_no           INTEGER NOT NULL DEFAULT 0,
  lease_until        INTEGER NOT NULL DEFAULT 0,
  -- The first moment at which it can be leased. A column of its own keeps hosts
  -- that are leased now out of the claim's index range.
  ready_at           INTEGER GENERATED ALWAYS AS (max(next_at, lease_until)) VIRTUAL,
  gap                INTEGER NOT NULL DEFAULT 0,
  fails              INTEGER NOT NULL DEFAULT 0,
  ip_key             TEXT NOT NULL DEFAULT '',
  pinged_at          INTEGER NOT NULL DEFAULT 0,
  robots_state       TEXT NOT NULL DEFAULT '',
  robots_read_at     INTEGER NOT NULL DEFAULT 0,
  robots_tried_at    INTEGER NOT NULL DEFAULT 0,
  robots_unreachable INTEGER NOT NULL DEFAULT 0,
  robots_problem     TEXT NOT NULL DEFAULT '',
  robots_etag        TEXT NOT NULL DEFAULT '',
  robots_modified    TEXT NOT NULL DEFAULT '',
  robots_final_url   TEXT NOT NULL DEFAULT '',
  robots_rules       TEXT                          -- NULL: no rules
) STRICT;
CREATE INDEX host_ready ON host (class, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX host_domain ON host (domain, first_seen);

-- One document that comes round for ever.
CREATE TABLE doc (
  id            INTEGER PRIMARY KEY,
  url           TEXT NOT NULL UNIQUE,
  host          TEXT NOT NULL,
  kind          TEXT NOT NULL,
  class         INTEGER NOT NULL CHECK (class BETWEEN 0 AND 3),
  next_at       INTEGER,                           -- NULL: never
  -- When somebody asked for a visit that no lease has been given out for
  -- since. A visit that was under way then cannot put it off.
  wanted_at     INTEGER,
  from_url      TEXT NOT NULL,
  found_by      TEXT NOT NULL,
  first_seen    INTEGER NOT NULL,
  interval      INTEGER NOT NULL DEFAULT 0,
  checked_at    INTEGER NOT NULL DEFAULT 0,
  read_at       INTEGER NOT NULL DEFAULT 0,
  full_get_at   INTEGER NOT NULL DEFAULT 0,
  status        INTEGER NOT NULL DEFAULT 0,
  final_url     TEXT NOT NULL DEFAULT '',
  chain         TEXT NOT NULL DEFAULT '',
  etag          TEXT NOT NULL DEFAULT '',
  last_modified TEXT NOT NULL DEFAULT '',
  content_type  TEXT NOT NULL DEFAULT '',
  cache_control TEXT NOT NULL DEFAULT '',
  link          TEXT NOT NULL DEFAULT '',
  x_robots      TEXT NOT NULL DEFAULT '',
  hash          TEXT NOT NULL DEFAULT '',
  noindex       INTEGER NOT NULL DEFAULT 0,
  fault         TEXT NOT NULL DEFAULT '',
  fault_text    TEXT NOT NULL DEFAULT '',
  fault_since   INTEGER NOT NULL DEFAULT 0,
  fails         INTEGER NOT NULL DEFAULT 0,
  needs         TEXT NOT NULL DEFAULT '',
  targets       TEXT NOT NULL DEFAULT '',
  body          BLOB
) STRICT;
CREATE INDEX doc_due ON doc (host, class, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX doc_card ON doc (url) WHERE kind = 'card';

-- doc.needs the other way round.
CREATE TABLE need (
  url TEXT NOT NULL,
  doc INTEGER NOT NULL REFERENCES doc (id) ON DELETE CASCADE,
  PRIMARY KEY (url, doc)
) STRICT, WITHOUT ROWID;
CREATE INDEX need_doc ON need (doc);

-- New documents on other hosts, by the domain whose documents named them: what
-- the daily allowance is counted from. Rows older than a day mean nothing.
CREATE TABLE lead (
  found_by TEXT NOT NULL,
  at       INTEGER NOT NULL,
  url      TEXT NOT NULL,
  PRIMARY KEY (found_by, at, url)
) STRICT, WITHOUT ROWID;

-- Other new documents of a host ("host"), or of all hosts of a registrable domain
-- ("*.domain"), by the hour; with "?" before the name, those that no document
-- named. Rows older than a day mean nothing.
CREATE TABLE added (
  name TEXT NOT NULL,
  hour INTEGER NOT NULL,                           -- since 1970
  docs INTEGER NOT NULL,
  PRIMARY KEY (name, hour)
) STRICT, WITHOUT ROWID;

-- The newest outcomes of each document, numbered from 1 without gaps.
CREATE TABLE outcome (
  url      TEXT NOT NULL,
  n        INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  code     TEXT NOT NULL,
  next_at  INTEGER NOT NULL,
  sentence TEXT NOT NULL,
  steps    TEXT NOT NULL,                          -- JSON array; '' for none
  PRIMARY KEY (url, n)
) STRICT, WITHOUT ROWID;

-- Apps, and the tombstones of those removed. seq is the feed.
CREATE TABLE entry (
  n            INTEGER PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,
  card_url     TEXT NOT NULL,                      -- found by its id, which is made from it
  seq          INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  state        TEXT NOT NULL,
  reason       TEXT NOT NULL,
  stale_since  INTEGER NOT NULL,
  first_seen   INTEGER NOT NULL,
  checked_at   INTEGER NOT NULL,
  final_url    TEXT NOT NULL,
  chain        TEXT NOT NULL,
  hash         TEXT NOT NULL,
  name         TEXT NOT NULL,
  version      TEXT NOT NULL,
  identifier   TEXT NOT NULL,
  display_name TEXT NOT NULL,
  description  TEXT NOT NULL,
  tags         TEXT NOT NULL,
  proof_kind   TEXT NOT NULL,                      -- '': no evidence
  proof_url    TEXT NOT NULL,
  proof_chain  TEXT NOT NULL,
  proof_at     INTEGER NOT NULL,
  document     BLOB
) STRICT;
CREATE UNIQUE INDEX entry_seq ON entry (seq);
CREATE INDEX entry_state ON entry (state);
CREATE INDEX entry_tombstone ON entry (updated_at) WHERE state = 'removed';

-- The end of the feed, one row.
CREATE TABLE feed (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  epoch      TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  dropped    INTEGER NOT NULL,                     -- highest seq of a tombstone that is no longer kept
  secret     BLOB NOT NULL                         -- signs cursors
) STRICT;
INSERT INTO feed (id, epoch, seq, updated_at, dropped, secret)
VALUES (1, lower(hex(randomblob(8))), 0, 0, 0, randomblob(32));
