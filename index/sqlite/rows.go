package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/robots"
)

// Columns in the order in which the functions below read and write them.
const (
	docColumns = `url, host, kind, class, next_at, from_url, found_by, first_seen, interval, checked_at, read_at,
		full_get_at, status, final_url, chain, etag, last_modified, content_type, cache_control, link, x_robots,
		hash, noindex, fault, fault_text, fault_since, fails, needs, targets` // and body, when asked for
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

func scanDoc(row scanner, d *index.Doc, more ...any) error {
	return row.Scan(append([]any{
		&d.URL, &d.Host,
		word[index.Kind]{&d.Kind},
		number{(*int)(&d.Class)},
		moment{&d.NextAt},
		&d.From, &d.FoundBy,
		moment{&d.FirstSeen},
		span{&d.Interval},
		moment{&d.CheckedAt},
		moment{&d.ReadAt},
		moment{&d.FullGetAt},
		number{&d.Status},
		&d.FinalURL,
		list{&d.Chain},
		&d.ETag, &d.LastModified, &d.ContentType, &d.CacheControl,
		list{&d.Link},
		list{&d.XRobots},
		&d.Hash, &d.NoIndex,
		word[index.Reason]{&d.Fault},
		&d.FaultText,
		moment{&d.FaultSince},
		number{&d.Fails},
		list{&d.Needs},
		list{&d.Targets},
	}, more...)...)
}

// docValues are those of docColumns.
func docValues(d *index.Doc, needs string) []any {
	return append(make([]any, 0, 36), // and what callers append
		d.URL, d.Host, string(d.Kind), int64(d.Class), orNull(d.NextAt), d.From, d.FoundBy, micro(d.FirstSeen),
		d.Interval.Microseconds(), micro(d.CheckedAt), micro(d.ReadAt), micro(d.FullGetAt),
		int64(d.Status), d.FinalURL, lines(d.Chain), d.ETag, d.LastModified, d.ContentType, d.CacheControl,
		lines(d.Link), lines(d.XRobots), d.Hash, bit(d.NoIndex), string(d.Fault), d.FaultText, micro(d.FaultSince),
		int64(d.Fails), needs, lines(d.Targets),
	)
}

func bodyValue(d *index.Doc) any {
	if len(d.Body) == 0 {
		return nil
	}
	return d.Body
}

// updateValues are those of putSameKind, or with kind of putDoc.
func updateValues(d *index.Doc, k knownDoc, kind, keepBody bool) []any {
	values := docValues(d, k.needs)[5:]
	if kind {
		values = slices.Insert(values, 0, any(string(d.Kind)))
	}
	values = append(values, bit(keepBody), bodyValue(d))
	return append(values, nextValues(d, k.id)...)
}

// timeValues are those of putTimes.
func timeValues(d *index.Doc, id int64) []any {
	values := append(make([]any, 0, 11), d.Interval.Microseconds(), micro(d.CheckedAt), micro(d.ReadAt), micro(d.FullGetAt), int64(d.Status), int64(d.Fails))
	return append(values, nextValues(d, id)...)
}

// nextValues are those of nextVisit, and the id.
func nextValues(d *index.Doc, id int64) []any {
	class, next := int64(d.Class), orNull(d.NextAt)
	return []any{class, class, next, next, id}
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

func entryValues(e *index.Entry) []any {
	var proof catalog.Evidence
	if e.Evidence != nil {
		proof = *e.Evidence
	}
	var document any
	if len(e.Document) > 0 {
		document = e.Document
	}
	return []any{
		e.ID, e.CardURL, e.Seq, micro(e.UpdatedAt), string(e.State), string(e.Reason), micro(e.StaleSince),
		micro(e.FirstSeen), micro(e.CheckedAt), e.FinalURL, lines(e.Chain),
		e.Hash, e.Name, e.Version, e.Identifier, e.DisplayName, e.Description, lines(e.Tags),
		string(proof.Kind), proof.CatalogURL, lines(proof.Chain), micro(proof.CheckedAt), document,
	}
}

// touchValues are those of touchEntry.
func touchValues(e *index.Entry) []any {
	all := entryValues(e) // in the order of entryColumns
	values := append(make([]any, 0, 16), all[6:11]...)
	values = append(values, all[12:22]...)
	return append(values, e.ID)
}

// marks gives n question marks for VALUES.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// set gives "a = ?, b = ?, ..." for columns, without those left out. Numbered
// parameters would be longer to bind: the driver asks for each one's name.
func set(columns string, leaveOut ...string) string {
	return assign(columns, func(string) string { return "?" }, leaveOut)
}

// excluded is set for an upsert: each column gets what could not be inserted.
func excluded(columns string, leaveOut ...string) string {
	return assign(columns, func(c string) string { return "excluded." + c }, leaveOut)
}

func assign(columns string, value func(column string) string, leaveOut []string) string {
	var parts []string
	for c := range strings.SplitSeq(columns, ",") {
		if c = strings.TrimSpace(c); !slices.Contains(leaveOut, c) {
			parts = append(parts, c+" = "+value(c))
		}
	}
	return strings.Join(parts, ", ")
}
