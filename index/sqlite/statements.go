package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// statements are prepared once. The first group runs on the writing
// connection, the second on the reading ones.
type statements struct {
	known, knownHosts, newInDomain, ledBy, addedTo, addHosts, addDocs, addLeads, pruneLeads, addAdded, pruneAdded,
	setKind, want, pinged, settle,
	waiting, claim, dueDocs, handedOut,
	fence, setRobots, addWhole, putDoc, putSameKind, putTimes, addBody, putBody, dropBody, clearNeeds, addNeed, drop, needed, wake,
	oldDocs, oldEntries, addEntry, putEntry, touchEntry, ownDocument, addOutcome, trimOutcomes, advance *sql.Stmt

	entryByID, doc, host, isNeeded, outcomes, head, changes, snapshot, nextDue *sql.Stmt
}

// prepared is a statement before it is prepared.
type prepared struct {
	stmt **sql.Stmt
	on   connection
	text string
}

type connection int

const (
	write connection = iota
	read
)

func (q *statements) prepare(ctx context.Context, writing, reading *sql.DB) error {
	for _, p := range q.list() {
		db := writing
		if p.on == read {
			db = reading
		}
		var err error
		if *p.stmt, err = db.PrepareContext(ctx, p.text); err != nil {
			return fmt.Errorf("prepare %.60q: %w", p.text, explain(err))
		}
	}
	return nil
}

func (q *statements) list() []prepared {
	return []prepared{
		// Adding documents.
		{&q.known, write, `SELECT d.url, d.kind, d.from_url, d.read_at FROM json_each(?) j CROSS JOIN doc d ON d.url = j.value`},
		{&q.knownHosts, write, `SELECT h.name, h.pinged_at FROM json_each(?) j CROSS JOIN host h ON h.name = j.value`},
		{&q.newInDomain, write, `SELECT count(*) FROM host WHERE domain = ? AND first_seen > ?`},
		{&q.ledBy, write, `SELECT url FROM lead WHERE found_by = ? AND at > ?`},
		{&q.addedTo, write, `SELECT coalesce(sum(docs), 0) FROM added WHERE name = ? AND hour > ?`},
		{&q.addHosts, write, `INSERT INTO host (name, domain, found_by, first_seen)
			SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)`},
		{&q.addDocs, write, `INSERT INTO doc (host, kind, class, next_at, from_url, found_by, first_seen, url)
			SELECT h.id, ?, ?, ?, ?, ?, ?, j.value FROM host h CROSS JOIN json_each(?) j WHERE h.name = ?`},
		{&q.addLeads, write, `INSERT INTO lead (found_by, at, url)
			SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?) WHERE true ON CONFLICT DO NOTHING`},
		{&q.addAdded, write, `INSERT INTO added (name, hour, docs) VALUES (?, ?, ?)
			ON CONFLICT (name, hour) DO UPDATE SET docs = docs + excluded.docs`},
		{&q.pruneAdded, write, `DELETE FROM added WHERE name = ? AND hour <= ?`},
		{&q.setKind, write, `UPDATE doc SET kind = ?, from_url = coalesce(?, from_url), found_by = coalesce(?, found_by) WHERE url = ?`},
		{&q.pruneLeads, write, `DELETE FROM lead WHERE found_by = ? AND at <= ?`},
		{&q.want, write, `UPDATE doc SET next_at = coalesce(min(next_at, ?1), ?1), wanted_at = ?1, class = min(class, ?2)
			WHERE url = ?3`},
		{&q.pinged, write, `UPDATE host SET pinged_at = ? WHERE name = ?`},

		// A host's next_at and class are those of its next due document; of
		// those that will be due by then, the most urgent one gives the class.
		{&q.settle, write, `WITH due AS MATERIALIZED (
			SELECT h.id, h.not_before, ` + firstDue(0) + ` AS c0, ` + firstDue(1) + ` AS c1, ` + firstDue(2) + ` AS c2, ` + firstDue(3) + ` AS c3
			FROM json_each(?1) j CROSS JOIN host h ON h.name = j.value
		), next AS MATERIALIZED (
			SELECT id, c0, c1, c2, c3, nullif(max(min(c0, c1, c2, c3), not_before), ` + never + `) AS at FROM due
		)
		UPDATE host SET next_at = next.at, class = CASE WHEN next.at IS NULL THEN class
			WHEN c0 <= max(next.at, ?2) THEN 0 WHEN c1 <= max(next.at, ?2) THEN 1 WHEN c2 <= max(next.at, ?2) THEN 2 ELSE 3 END
		FROM next WHERE host.id = next.id`},

		// Leases.
		{&q.waiting, write, `SELECT id FROM host WHERE class = ? AND ready_at <= ? ORDER BY ready_at LIMIT ?`},
		{&q.claim, write, `UPDATE host SET owner = ?1, lease_no = lease_no + 1, lease_until = ?2
			WHERE id IN (SELECT value FROM json_each(?3)) RETURNING ` + hostColumns + `, lease_no, id`},
		{&q.dueDocs, write, `SELECT ` + docColumns + `, doc.host, doc.id, doc.wanted_at IS NOT NULL, doc.stored
			FROM json_each(?1) j CROSS JOIN (VALUES (0), (1), (2), (3)) c CROSS JOIN doc
			WHERE doc.id IN (SELECT x.id FROM doc x WHERE x.host = j.value AND x.class = c.column1 AND x.next_at <= ?2
				ORDER BY x.next_at LIMIT ?3)`},
		{&q.handedOut, write, `UPDATE doc SET wanted_at = NULL WHERE id IN (SELECT value FROM json_each(?))`},

		// Visits.
		{&q.fence, write, `UPDATE host SET owner = '', lease_until = 0, gap = ?, not_before = ?, fails = ?, ip_key = ?
			WHERE name = ? AND owner = ? AND lease_no = ?`},
		{&q.setRobots, write, `UPDATE host SET robots_state = ?, robots_read_at = ?, robots_tried_at = ?, robots_unreachable = ?,
			robots_problem = ?, robots_etag = ?, robots_modified = ?, robots_final_url = ?, robots_rules = ? WHERE name = ?`},
		{&q.addWhole, write, `INSERT INTO doc (url, host, kind, class, next_at, interval, checked_at, read_at, full_get_at, status, fails,
			first_seen, from_url, found_by, hash, needs, about, stored) VALUES (?, (SELECT id FROM host WHERE name = ?), ` + marks(16) + `)`},
		// A document that was asked for while it was being visited stays due. An
		// update that leaves kind alone leaves its index alone.
		{&q.putDoc, write, `UPDATE doc SET kind = ?, ` + putContents},
		{&q.putSameKind, write, `UPDATE doc SET ` + putContents},
		// A document whose contents are what they were.
		{&q.putTimes, write, `UPDATE doc SET ` + putTimes},
		{&q.addBody, write, `INSERT INTO body (bytes, doc) VALUES (?, ?)`},
		{&q.putBody, write, `UPDATE body SET bytes = ? WHERE doc = ?`},
		{&q.dropBody, write, `DELETE FROM body WHERE doc = ?`},
		{&q.clearNeeds, write, `DELETE FROM need WHERE doc = ?`},
		{&q.addNeed, write, `INSERT INTO need (url, doc) VALUES (?, ?) ON CONFLICT DO NOTHING`},
		{&q.drop, write, `DELETE FROM doc WHERE url = ? AND host = (SELECT id FROM host WHERE name = ?)`},
		{&q.needed, write, `SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM need WHERE need.url = value)`},
		{&q.wake, write, `UPDATE doc SET next_at = coalesce(min(next_at, ?1), ?1), wanted_at = ?1
			WHERE id IN (SELECT n.doc FROM json_each(?2) j CROSS JOIN need n ON n.url = j.value)
			AND url NOT IN (SELECT value FROM json_each(?3)) RETURNING (SELECT name FROM host WHERE host.id = doc.host)`},
		{&q.oldDocs, write, `SELECT d.url, d.id, d.kind, d.needs, d.hash, d.stored FROM json_each(?) j CROSS JOIN doc d ON d.url = j.value`},
		{&q.oldEntries, write, `SELECT ` + qualified("e", entryColumns) + ` FROM json_each(?) j CROSS JOIN entry e ON e.id = j.value`},
		{&q.addEntry, write, `INSERT INTO entry (` + entryColumns + `, document, doc) VALUES (` + marks(24) + `)`},
		{&q.putEntry, write, `UPDATE entry SET ` + set(entryColumns+", document, doc", "id", "card_url") + ` WHERE id = ?`},
		// The body is about to change, and the entry keeps what it was made from.
		{&q.ownDocument, write, `UPDATE entry SET document = (SELECT bytes FROM body WHERE doc = ?1), doc = NULL WHERE id = ?2 AND doc = ?1`},
		// Without news the columns of the feed and of the indexes stay as they are.
		{&q.touchEntry, write, `UPDATE entry SET stale_since = ?, first_seen = ?, checked_at = ?, final_url = ?, chain = ?, name = ?, version = ?,
			identifier = ?, display_name = ?, description = ?, tags = ?, proof_kind = ?, proof_url = ?, proof_chain = ?, proof_at = ? WHERE id = ?`},
		{&q.addOutcome, write, `INSERT INTO outcome (url, n, at, code, next_at, sentence, steps)
			SELECT ?, coalesce(max(n), 0) + 1, ?, ?, ?, ?, ? FROM outcome WHERE url = ?`},
		{&q.trimOutcomes, write, `DELETE FROM outcome WHERE (url, n) IN (
			SELECT o.url, o.n FROM json_each(?1) j CROSS JOIN outcome o ON o.url = j.value
			WHERE o.n <= (SELECT max(n) FROM outcome WHERE url = j.value) - ?2)`},
		{&q.advance, write, `UPDATE feed SET seq = ?, updated_at = ? WHERE id = 1`},

		// Reads.
		{&q.entryByID, read, `SELECT ` + entryColumns + `, ` + document + ` FROM entry WHERE id = ?`},
		{&q.doc, read, `SELECT ` + docColumns + `, host.name, body.bytes
			FROM doc CROSS JOIN host ON host.id = doc.host LEFT JOIN body ON body.doc = doc.id WHERE doc.url = ?`},
		{&q.host, read, `SELECT ` + hostColumns + ` FROM host WHERE name = ?`},
		{&q.isNeeded, read, `SELECT EXISTS (SELECT 1 FROM need WHERE url = ?)`},
		{&q.outcomes, read, `SELECT url, at, code, next_at, sentence, steps FROM outcome WHERE url = ? ORDER BY n DESC LIMIT ?`},
		{&q.head, read, headText},
		{&q.changes, read, `SELECT ` + entryColumns + `, ` + document + ` FROM entry WHERE seq > ? ORDER BY seq LIMIT ?`},
		{&q.snapshot, read, `SELECT ` + entryColumns + `, ` + document + ` FROM entry WHERE state IN ('listed', 'stale') ORDER BY id`},
		{&q.nextDue, read, `SELECT min(at) FROM (` + firstReady(0) + ` UNION ALL ` + firstReady(1) + ` UNION ALL ` +
			firstReady(2) + ` UNION ALL ` + firstReady(3) + `)`},
	}
}

// document is an entry's.
const document = `coalesce(document, (SELECT bytes FROM body WHERE body.doc = entry.doc))`

const headText = `SELECT epoch, seq, updated_at, dropped FROM feed WHERE id = 1`

// never stands for the time of what never comes.
const never = `9223372036854775807`

func firstDue(class int) string {
	return fmt.Sprintf(`coalesce((SELECT min(next_at) FROM doc WHERE host = h.id AND class = %d AND next_at IS NOT NULL), `+never+`)`, class)
}

func firstReady(class int) string {
	return fmt.Sprintf(`SELECT min(ready_at) AS at FROM host WHERE class = %d AND ready_at IS NOT NULL`, class)
}

// putContents overwrites a document but for url, host and kind; its values are
// contentValues. putTimes sets what every visit sets; its values are timeValues.
const (
	putContents = `from_url = ?, found_by = ?, first_seen = ?, hash = ?, needs = ?, about = ?, stored = ?, ` + putTimes
	putTimes    = `interval = ?, checked_at = ?, read_at = ?, full_get_at = ?, status = ?, fails = ?,
		class = CASE WHEN wanted_at IS NULL THEN ? ELSE min(class, ?) END,
		next_at = CASE WHEN wanted_at IS NULL THEN ? ELSE coalesce(min(wanted_at, ?), wanted_at) END WHERE id = ?`
)

// qualified puts a table's short name before each column.
func qualified(table, columns string) string {
	list := strings.Split(columns, ",")
	for i, c := range list {
		list[i] = table + "." + strings.TrimSpace(c)
	}
	return strings.Join(list, ", ")
}
