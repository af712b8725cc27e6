package sqlite

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// leastGap is the gap of a host that none is known of yet (P1).
const leastGap = time.Second

// owners knows whether anybody holds leases. A process that was killed leaves
// leases behind; while a Store that leases may still be alive they must be
// waited for, a minute at most. Each such Store shares a lock on a file beside
// the database, which ends with its process in whatever way that ends: who can
// have the lock alone knows that all present leases are dead.
type owners struct {
	path string

	mu   sync.Mutex
	file *os.File // nil until the first lease
}

// claimAlive takes part in the lock before the Store's first lease. Where
// nobody else does, it ends what leases there are: their hosts are ready after
// their gap, a second at least. Without file locks it does nothing, and abandoned
// leases end by their time.
func (s *Store) claimAlive(ctx context.Context, now time.Time) error {
	o := &s.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		return nil
	}
	file, err := os.OpenFile(o.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	alone, err := lockAlone(file)
	if err == nil && alone {
		var ended int64
		if ended, err = s.endLeases(ctx, now); ended > 0 {
			s.log.Info("ended the leases of processes that are gone", "hosts", ended)
		}
	}
	if err == nil {
		err = share(ctx, file)
	}
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("lease: %w", err)
	}
	o.file = file
	return nil
}

// endLeases makes hosts that are leased wait no longer than for their gap.
func (s *Store) endLeases(ctx context.Context, now time.Time) (n int64, err error) {
	err = s.writing(ctx, "end leases", func(t *tx) error {
		// A host is ready when its lease and its gap are over.
		r, err := t.sql.ExecContext(ctx, `UPDATE host SET lease_until = ?1 + max(?2 - gap, 0) WHERE lease_until > ?1 + max(?2 - gap, 0)`,
			micro(now), leastGap.Microseconds())
		if err == nil {
			n, err = r.RowsAffected()
		}
		return err
	})
	return n, err
}

// share waits while another process looks at the leases.
func share(ctx context.Context, file *os.File) error {
	for {
		ok, err := lockShared(file)
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (o *owners) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return nil
	}
	err := o.file.Close() // and with it the lock
	o.file = nil
	return err
}
