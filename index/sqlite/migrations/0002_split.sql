-- +goose Up

-- Bodies stand in a table of their own, so that the documents of a usual host
-- lie on one page: a visit without news reads and writes no more than that page.
-- Hosts are referred to by number: their names were half of each key of doc_due.

-- One document that comes round for ever.
CREATE TABLE doc_new (
  id          INTEGER PRIMARY KEY,
  url         TEXT NOT NULL UNIQUE,
  host        INTEGER NOT NULL,                    -- host.id
  kind        TEXT NOT NULL,
  class       INTEGER NOT NULL CHECK (class BETWEEN 0 AND 3),
  next_at     INTEGER,                             -- NULL: never
  -- When somebody asked for a visit that no lease has been given out for
  -- since. A visit that was under way then cannot put it off.
  wanted_at   INTEGER,
  interval    INTEGER NOT NULL DEFAULT 0,
  checked_at  INTEGER NOT NULL DEFAULT 0,
  read_at     INTEGER NOT NULL DEFAULT 0,
  full_get_at INTEGER NOT NULL DEFAULT 0,
  status      INTEGER NOT NULL DEFAULT 0,
  fails       INTEGER NOT NULL DEFAULT 0,
  first_seen  INTEGER NOT NULL,
  from_url    TEXT NOT NULL,
  found_by    TEXT NOT NULL,
  hash        TEXT NOT NULL DEFAULT '',
  needs       TEXT NOT NULL DEFAULT '',
  -- Lines, of which those that are lists hold lines themselves: final URL,
  -- chain, ETag, Last-Modified, Content-Type, Cache-Control, Link, X-Robots-Tag,
  -- noindex (0 or 1), fault, its text, since when, targets. '' is all of them
  -- empty. They are only ever read and written together; as columns of their
  -- own they cost as much as the rest of the row.
  about       TEXT NOT NULL DEFAULT '',
  stored      INTEGER NOT NULL DEFAULT 0           -- 1: body has a row
) STRICT;

-- What the last readable answer was made of.
CREATE TABLE body (
  doc   INTEGER PRIMARY KEY REFERENCES doc_new (id) ON DELETE CASCADE,
  bytes BLOB NOT NULL
) STRICT;

INSERT INTO doc_new
  SELECT d.id, d.url, h.id, d.kind, d.class, d.next_at, d.wanted_at, d.interval, d.checked_at, d.read_at, d.full_get_at,
    d.status, d.fails, d.first_seen, d.from_url, d.found_by, d.hash, d.needs,
    replace(replace(d.final_url, '\', '\\'), char(10), '\n') || char(10) ||
    replace(replace(d.chain, '\', '\\'), char(10), '\n') || char(10) ||
    replace(replace(d.etag, '\', '\\'), char(10), '\n') || char(10) ||
    replace(replace(d.last_modified, '\', '\\'), char(10), '\n') || char(10) ||
    replace(replace(d.content_type, '\', '\\'), char(10), '\n') || char(10) ||
    replace(replace(d.cache_control, '\', '\\'), char(10), '\n') || char(10) ||
    replace(replace(d.link, '\', '\\'), char(10), '\n') || char(10) ||
    replace(replace(d.x_robots, '\', '\\'), char(10), '\n') || char(10) ||
    d.noindex || char(10) ||
    replace(replace(d.fault, '\', '\\'), char(10), '\n') || char(10) ||
    replace(replace(d.fault_text, '\', '\\'), char(10), '\n') || char(10) ||
    d.fault_since || char(10) ||
    replace(replace(d.targets, '\', '\\'), char(10), '\n') || char(10),
    d.body IS NOT NULL
  FROM doc d JOIN host h ON h.name = d.host;
-- A document whose host has no row could never be visited, and ends here.
INSERT INTO body SELECT d.id, d.body FROM doc d JOIN doc_new n ON n.id = d.id WHERE d.body IS NOT NULL;

CREATE TABLE need_new (
  url TEXT NOT NULL,
  doc INTEGER NOT NULL REFERENCES doc_new (id) ON DELETE CASCADE,
  PRIMARY KEY (url, doc)
) STRICT, WITHOUT ROWID;
INSERT INTO need_new SELECT d.url, d.doc FROM need d JOIN doc_new n ON n.id = d.doc;
DROP TABLE need;
DROP TABLE doc;
ALTER TABLE doc_new RENAME TO doc;
ALTER TABLE need_new RENAME TO need;
CREATE INDEX need_doc ON need (doc);
CREATE INDEX doc_due ON doc (host, class, next_at);
CREATE INDEX doc_card ON doc (url) WHERE kind = 'card';

-- When the owner of a lease is gone, its last request may have been made at the
-- lease's end, so the host's gap counts from there.
DROP INDEX host_ready;
ALTER TABLE host DROP COLUMN ready_at;
ALTER TABLE host ADD COLUMN ready_at INTEGER
  GENERATED ALWAYS AS (max(next_at, iif(lease_until > 0, lease_until + gap, 0))) VIRTUAL;
CREATE INDEX host_ready ON host (class, ready_at) WHERE ready_at IS NOT NULL;

-- An entry's document is the body of its card most of the time, and stored once.
ALTER TABLE entry ADD COLUMN doc INTEGER;          -- whose body is the document; NULL: it is in document
UPDATE entry SET doc = d.id, document = NULL
  FROM doc d JOIN body b ON b.doc = d.id WHERE d.url = entry.card_url AND b.bytes = entry.document;
-- It moved with every change and helped none but the counting of all entries.
DROP INDEX entry_state;
