package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// missing turns "no rows" into the contract's condition.
func missing(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return index.ErrNotFound
	}
	return explain(err)
}

// Get implements index.Store.
func (s *Store) Get(ctx context.Context, id string) (*index.Entry, error) {
	e := new(index.Entry)
	if err := scanEntry(s.stmts.entryByID.QueryRowContext(ctx, id), e, &e.Document); err != nil {
		return nil, fmt.Errorf("read entry %s: %w", id, missing(err))
	}
	return e, nil
}

// ByCard implements index.Store.
func (s *Store) ByCard(ctx context.Context, cardURL string) (*index.Entry, error) {
	e := new(index.Entry)
	if err := scanEntry(s.stmts.entryByID.QueryRowContext(ctx, index.ID(cardURL)), e, &e.Document); err != nil {
		return nil, fmt.Errorf("read entry of %s: %w", cardURL, missing(err))
	}
	return e, nil
}

// Doc implements index.Store.
func (s *Store) Doc(ctx context.Context, url string) (*index.Doc, error) {
	d := new(index.Doc)
	if err := scanDoc(s.stmts.doc.QueryRowContext(ctx, url), d, &d.Host, &d.Body); err != nil {
		return nil, fmt.Errorf("read document %s: %w", url, missing(err))
	}
	return d, nil
}

// Host implements index.Store.
func (s *Store) Host(ctx context.Context, name string) (*index.Host, error) {
	h := new(index.Host)
	if err := scanHost(s.stmts.host.QueryRowContext(ctx, name), h); err != nil {
		return nil, fmt.Errorf("read host %s: %w", name, missing(err))
	}
	return h, nil
}

// Needed implements index.Store.
func (s *Store) Needed(ctx context.Context, url string) (needed bool, err error) {
	if err := s.stmts.isNeeded.QueryRowContext(ctx, url).Scan(&needed); err != nil {
		return false, fmt.Errorf("read who needs %s: %w", url, explain(err))
	}
	return needed, nil
}

// Outcomes implements index.Store. No more than index.KeepOutcomes are kept.
func (s *Store) Outcomes(ctx context.Context, url string, n int) ([]index.Outcome, error) {
	rows, err := s.stmts.outcomes.QueryContext(ctx, url, n)
	if err != nil {
		return nil, fmt.Errorf("read outcomes of %s: %w", url, explain(err))
	}
	var list []index.Outcome
	err = eachRow(rows, func(rows *sql.Rows) error {
		var o index.Outcome
		var steps string
		if err := rows.Scan(&o.URL, moment{&o.At}, &o.Code, moment{&o.NextAt}, &o.Sentence, &steps); err != nil {
			return err
		}
		if steps != "" {
			if err := json.Unmarshal([]byte(steps), &o.Steps); err != nil {
				return err
			}
		}
		list = append(list, o)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read outcomes of %s: %w", url, explain(err))
	}
	return list, nil
}

// encodeSteps writes the steps of an outcome, times to the microsecond.
func encodeSteps(steps []index.Step) (string, error) {
	if len(steps) == 0 {
		return "", nil
	}
	out := make([]index.Step, len(steps))
	for i, st := range steps {
		st.At = fromMicro(micro(st.At))
		out[i] = st
	}
	data, err := json.Marshal(out)
	return string(data), err
}

// Stats implements index.Store. It counts rows, about a second for a million
// documents: not for every request of strangers.
func (s *Store) Stats(ctx context.Context, now time.Time) (*index.Stats, error) {
	st := &index.Stats{Entries: make(map[index.State]int64)}
	err := s.reading(ctx, "read stats", func(t *sql.Tx, h index.Head, _ int64) error {
		st.Head = h
		rows, err := t.QueryContext(ctx, `SELECT state, count(*) FROM entry GROUP BY state`)
		if err != nil {
			return err
		}
		err = eachRow(rows, func(rows *sql.Rows) error {
			var state index.State
			var n int64
			err := rows.Scan(&state, &n)
			st.Entries[state] = n
			return err
		})
		if err != nil {
			return err
		}
		var leads int64
		err = t.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM host), (SELECT count(*) FROM doc),
			(SELECT count(*) FROM doc WHERE next_at IS NOT NULL AND next_at <= ?),
			(SELECT count(*) FROM doc WHERE kind = 'card') - (SELECT count(*) FROM entry CROSS JOIN doc ON doc.url = card_url AND kind = 'card')`,
			micro(now)).Scan(&st.Hosts, &st.Documents, &st.Due, &leads)
		if leads > 0 {
			st.Entries[index.Lead] = leads
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}
