package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/robots"
)

// Columns in the order in which the functions below read and write them.
const (
	// But for the number of the host.
	docColumns = `doc.url, doc.kind, doc.class, doc.next_at, doc.interval, doc.checked_at, doc.read_at, doc.full_get_at,
		doc.status, doc.fails, doc.first_seen, doc.from_url, doc.found_by, doc.hash, doc.needs, doc.about`
	hostColumns = `name, domain, found_by, first_seen, class, next_at, not_before, gap, fails, ip_key,
		robots_state, robots_read_at, robots_tried_at, robots_unreachable, robots_problem,
		robots_etag, robots_modified, robots_final_url, robots_rules`
	entryColumns = `id, card_url, seq, updated_at, state, reason, stale_since, first_seen, checked_at, final_url, chain,
		hash, name, version, identifier, display_name, description, tags, proof_kind, proof_url, proof_chain, proof_at`
)

// number and word scan what database/sql would need reflection for.
type number struct{ n *int }

func (n number) Scan(v any) error {
	i, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a number column holds %T", v)
	}
	*n.n = int(i)
	return nil
}

type word[T ~string] struct{ w *T }

func (w word[T]) Scan(v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("a text column holds %T", v)
	}
	*w.w = T(s)
	return nil
}

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(dest ...any) error }

// micro is how a time is stored: microseconds, 0 for the zero time.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// orNull is micro for columns where NULL says never.
func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func fromMicro(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// moment scans a stored time into a time.Time.
type moment struct{ t *time.Time }

func (m moment) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*m.t = time.Time{}
	case int64:
		*m.t = fromMicro(v)
	default:
		return fmt.Errorf("a time column holds %T", v)
	}
	return nil
}

// span scans stored microseconds into a time.Duration.
type span struct{ d *time.Duration }

func (s span) Scan(v any) error {
	us, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a duration column holds %T", v)
	}
	*s.d = time.Duration(us) * time.Microsecond
	return nil
}

var escapeLine = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

// lines is how a list is stored. Unlike JSON it keeps octets that are no UTF-8,
// which header values may have.
func lines(list []string) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	for _, s := range list {
		_, _ = escapeLine.WriteString(&b, s)
		b.WriteByte('\n')
	}
	return b.String()
}

var unescapeLine = strings.NewReplacer(`\\`, `\`, `\n`, "\n")

func fromLines(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, s := range list {
		if strings.IndexByte(s, '\\') >= 0 {
			list[i] = unescapeLine.Replace(s)
		}
	}
	return list
}

// jsonList passes strings to json_each, so that one statement asks for many
// rows. They are URLs, host names and ids.
func jsonList(list []string) string {
	data, _ := json.Marshal(list) // strings always marshal
	return string(data)
}

func jsonNumbers(list []int64) string {
	data, _ := json.Marshal(list)
	return string(data)
}

// list scans stored lines into a []string.
type list struct{ l *[]string }

func (l list) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("a list column holds %T", v)
	}
	*l.l = fromLines(text)
	return nil
}

// scanDoc reads a document but for its host; more is where what was asked for
// beside docColumns goes.
func scanDoc(row scanner, d *index.Doc, more ...any) error {
	return row.Scan(append([]any{
		&d.URL,
		word[index.Kind]{&d.Kind},
		number{(*int)(&d.Class)},
		moment{&d.NextAt},
		span{&d.Interval},
		moment{&d.CheckedAt},
		moment{&d.ReadAt},
		moment{&d.FullGetAt},
		number{&d.Status},
		number{&d.Fails},
		moment{&d.FirstSeen},
		&d.From, &d.FoundBy,
		&d.Hash,
		list{&d.Needs},
		about{d},
	}, more...)...)
}

// about scans and gives what doc.about holds.
type about struct{ d *index.Doc }

func (a about) text() string {
	d := a.d
	return lines([]string{
		d.FinalURL, lines(d.Chain), d.ETag, d.LastModified, d.ContentType, d.CacheControl, lines(d.Link), lines(d.XRobots),
		strconv.FormatInt(bit(d.NoIndex), 10), string(d.Fault), d.FaultText, strconv.FormatInt(micro(d.FaultSince), 10), lines(d.Targets),
	})
}

// Scan takes text that a newer version of the schema made longer, and none.
func (a about) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("a text column holds %T", v)
	}
	l := fromLines(text)
	if len(l) == 0 {
		return nil
	}
	if len(l) < 13 {
		return fmt.Errorf("doc.about has %d lines", len(l))
	}
	since, err := strconv.ParseInt(l[11], 10, 64)
	if err != nil {
		return fmt.Errorf("doc.about: %w", err)
	}
	d := a.d
	d.FinalURL, d.Chain, d.ETag, d.LastModified, d.ContentType, d.CacheControl = l[0], fromLines(l[1]), l[2], l[3], l[4], l[5]
	d.Link, d.XRobots, d.NoIndex, d.Fault, d.FaultText = fromLines(l[6]), fromLines(l[7]), l[8] == "1", index.Reason(l[9]), l[10]
	d.FaultSince, d.Targets = fromMicro(since), fromLines(l[12])
	return nil
}

// addValues are those of addWhole.
func addValues(d *index.Doc, k *knownDoc) []any {
	return []any{
		d.URL, d.Host, string(d.Kind), int64(d.Class), orNull(d.NextAt), d.Interval.Microseconds(), micro(d.CheckedAt), micro(d.ReadAt),
		micro(d.FullGetAt), int64(d.Status), int64(d.Fails), micro(d.FirstSeen), d.From, d.FoundBy,
		d.Hash, k.needs, about{d}.text(), bit(k.body),
	}
}

// contentValues are those of putContent.
func contentValues(d *index.Doc, k *knownDoc) []any {
	return append([]any{d.From, d.FoundBy, micro(d.FirstSeen), d.Hash, k.needs, about{d}.text(), bit(k.body)}, timeValues(d, k.id)...)
}

// timeValues are those of putTimes.
func timeValues(d *index.Doc, id int64) []any {
	class, next := int64(d.Class), orNull(d.NextAt)
	return []any{
		d.Interval.Microseconds(), micro(d.CheckedAt), micro(d.ReadAt), micro(d.FullGetAt), int64(d.Status), int64(d.Fails),
		class, class, next, next, id,
	}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// scanHost reads a host. Rules that cannot be read any more count as never
// read, so that the file is fetched again.
func scanHost(row scanner, h *index.Host, more ...any) error {
	var rules sql.NullString
	f := &h.Robots
	err := row.Scan(append([]any{
		&h.Name, &h.Domain, &h.FoundBy,
		moment{&h.FirstSeen},
		number{(*int)(&h.Class)},
		moment{&h.NextAt},
		moment{&h.NotBefore},
		span{&h.Gap},
		number{&h.Fails},
		&h.IPKey,
		word[robots.State]{&f.State},
		moment{&f.ReadAt},
		moment{&f.TriedAt},
		&f.Unreachable, &f.Problem,
		&f.ETag, &f.LastModified, &f.FinalURL, &rules,
	}, more...)...)
	if err != nil || !rules.Valid {
		return err
	}
	f.Rules = new(robots.Rules)
	if f.Rules.UnmarshalText([]byte(rules.String)) != nil {
		h.Robots = robots.File{}
	}
	return nil
}

func robotsValues(f *robots.File) ([]any, error) {
	var rules any
	if f.Rules != nil {
		text, err := f.Rules.MarshalText()
		if err != nil {
			return nil, fmt.Errorf("write robots rules: %w: %w", errEncode, err)
		}
		rules = string(text)
	}
	return []any{
		string(f.State), micro(f.ReadAt), micro(f.TriedAt), bit(f.Unreachable), f.Problem,
		f.ETag, f.LastModified, f.FinalURL, rules,
	}, nil
}

// scanEntry reads an entry; more is where the document goes, when asked for.
func scanEntry(row scanner, e *index.Entry, more ...any) error {
	var proof catalog.Evidence
	err := row.Scan(append([]any{
		&e.ID, &e.CardURL, &e.Seq,
		moment{&e.UpdatedAt},
		&e.State, &e.Reason,
		moment{&e.StaleSince},
		moment{&e.FirstSeen},
		moment{&e.CheckedAt},
		&e.FinalURL,
		list{&e.Chain},
		&e.Hash, &e.Name, &e.Version, &e.Identifier, &e.DisplayName, &e.Description,
		list{&e.Tags},
		&proof.Kind, &proof.CatalogURL,
		list{&proof.Chain},
		moment{&proof.CheckedAt},
	}, more...)...)
	if err == nil && proof.Kind != "" {
		e.Evidence = &proof
	}
	return err
}

// entryValues are those of addEntry. doc is whose body is the document; 0: it
// is stored with the entry.
func entryValues(e *index.Entry, doc int64) []any {
	var proof catalog.Evidence
	if e.Evidence != nil {
		proof = *e.Evidence
	}
	var document, of any
	switch {
	case doc != 0:
		of = doc
	case len(e.Document) > 0:
		document = e.Document
	}
	return []any{
		e.ID, e.CardURL, e.Seq, micro(e.UpdatedAt), string(e.State), string(e.Reason), micro(e.StaleSince),
		micro(e.FirstSeen), micro(e.CheckedAt), e.FinalURL, lines(e.Chain),
		e.Hash, e.Name, e.Version, e.Identifier, e.DisplayName, e.Description, lines(e.Tags),
		string(proof.Kind), proof.CatalogURL, lines(proof.Chain), micro(proof.CheckedAt), document, of,
	}
}

// touchValues are those of touchEntry.
func touchValues(e *index.Entry) []any {
	all := entryValues(e, 0) // in the order of entryColumns
	values := append(make([]any, 0, 16), all[6:11]...)
	values = append(values, all[12:22]...)
	return append(values, e.ID)
}

// marks gives n question marks for VALUES.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// set gives "a = ?, b = ?, ..." for columns, without those left out. Numbered
// parameters would be longer to bind: the driver asks for each one's name.
func set(columns string, leaveOut ...string) string {
	var parts []string
	for c := range strings.SplitSeq(columns, ",") {
		if c = strings.TrimSpace(c); !slices.Contains(leaveOut, c) {
			parts = append(parts, c+" = ?")
		}
	}
	return strings.Join(parts, ", ")
}
