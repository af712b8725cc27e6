package index

import (
	"context"
	"errors"
	"time"
)

// Conditions that a caller acts on.
var (
	ErrNotFound = errors.New("not found")
	ErrCompact  = errors.New("changes before this point are no longer kept; start from a snapshot") // IX-17
	ErrLocked   = errors.New("the database is locked by another process")
	ErrFull     = errors.New("the disk is full")
	ErrCorrupt  = errors.New("the database is damaged")
	ErrSchema   = errors.New("the database is not one that this version can use") // of a newer version, or of another program
)

// Store keeps entries, evidence, frontier, outcomes and the change feed in one
// database, so that one transaction writes all that a visit changes (D35).
//
// Atomicity: Apply makes entry, evidence, outcome, next visit and change
// visible together or not at all; in a batch each visit stands alone. Visits of
// one batch may touch the same documents, entries and hosts, in any order: each
// sees what those before it wrote. A visit whose own data cannot be written
// costs itself only (Applied.Err); an error of Apply is the database's, and
// then nothing of the batch was written.
//
// Leases: a host is leased to one owner at a time; a lease ends by time. Apply
// of a visit whose owner and number are not the host's present ones, or whose
// lease has ended and was given again, changes nothing and says Fenced. A
// visit that is applied ends its lease.
//
// Feed: Seq grows by one a change and follows commit order; a reader that has
// read up to Seq never finds an older change later. Changes gives each entry's
// last state only.
//
// All times are UTC, kept to the microsecond. All methods are safe for
// concurrent use.
type Store interface {
	// AddSource makes documents known and due. It is how people and other
	// programs feed the frontier. It reports what Limits turned away.
	AddSource(ctx context.Context, now time.Time, docs ...NewDoc) (capped []NewDoc, err error)
	// Lease claims hosts with due documents: by class, each class with its
	// share, oldest due first.
	Lease(ctx context.Context, r LeaseRequest) ([]Lease, error)
	// Apply writes visits, in order; len(result) == len(visits) unless there is
	// an error, which is the database's or that of ctx.
	Apply(ctx context.Context, visits ...Visit) ([]Applied, error)
	// NextDue is the earliest time at which a Lease could give something; the
	// zero time when nothing is known.
	NextDue(ctx context.Context) (time.Time, error)

	Get(ctx context.Context, id string) (*Entry, error)         // removed ones too; ErrNotFound
	ByCard(ctx context.Context, cardURL string) (*Entry, error) // as Get
	Doc(ctx context.Context, url string) (*Doc, error)          // ErrNotFound
	Host(ctx context.Context, name string) (*Host, error)       // ErrNotFound
	// Needed reports whether any known document names url in its Needs.
	Needed(ctx context.Context, url string) (bool, error)
	// Outcomes gives the newest n outcomes of one document, newest first.
	Outcomes(ctx context.Context, url string, n int) ([]Outcome, error)

	Head(ctx context.Context) (Head, error)
	// Changes gives at most n changes with Seq > after, in order. ErrCompact
	// when tombstones after that point were dropped and after is not 0. So who
	// begins at 0 gets the first page in any case, but may be told to start
	// from a snapshot at a later one: of a feed that was compacted, and is
	// longer than a page, Snapshot is the way in.
	Changes(ctx context.Context, after int64, n int) ([]Change, error)
	// Snapshot calls fn for each searchable entry, by id, all from one read
	// transaction, and gives the head it belongs to.
	Snapshot(ctx context.Context, fn func(*Entry) error) (Head, error)
	// Watch gives a channel that receives after changes were committed. It is
	// a hint: a receiver reads Changes. It is closed when ctx ends.
	Watch(ctx context.Context) <-chan struct{}
	Stats(ctx context.Context, now time.Time) (*Stats, error)
	// Compact drops tombstones older than before (90 days, IX-10), and what else
	// is older than before and belongs to nothing: outcomes of documents that
	// are known no more, and hosts without documents. before should lie at
	// least LimitWindow back: the limits count hosts that have no documents.
	Compact(ctx context.Context, before time.Time) (dropped int64, err error)
	Close() error
}
