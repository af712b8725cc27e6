package index

import (
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/robots"
)

// Class orders the frontier (P6). A smaller class is served first, but each
// class has a share of the claims, so that none starves.
type Class int

// The classes.
const (
	ClassUser    Class = iota // a person asked: crawler add, a submission
	ClassRemoval              // noindex and removal checks, evidence that a card waits for
	ClassRecheck              // known documents
	ClassNew                  // first visits
)

// Kind is what a document is expected to be. The answer decides (D11).
type Kind string

// The kinds of document.
const (
	Any        Kind = "" // a link whose kind its first answer tells
	CatalogDoc Kind = "catalog"
	PageDoc    Kind = "page"
	CardDoc    Kind = "card"
)

// Host is one authority, the unit of leases and politeness (F1).
type Host struct {
	Name      string // "host", or "host:port" when the port is not 443
	Domain    string // registrable domain
	FoundBy   string // registrable domain whose document led here; "" when the operator or a person did
	FirstSeen time.Time
	NextAt    time.Time     // its next due document's, never before NotBefore; kept by the store
	Class     Class         // of that document; kept by the store
	NotBefore time.Time     // gap or Retry-After: no request before it
	Gap       time.Duration // last gap in force
	Fails     int
	IPKey     string // address (IPv4) or /64 (IPv6) last dialled
	Robots    robots.File
}

// Doc is one document that comes round for ever (crawler.md section 7).
type Doc struct {
	URL       string // normal form
	Host      string // authority of URL
	Kind      Kind
	Class     Class
	From      string // URL of the document that named it; "" for a person
	FoundBy   string // registrable domain of From
	FirstSeen time.Time

	NextAt    time.Time
	Interval  time.Duration // last recheck interval (P5)
	CheckedAt time.Time     // last attempt
	ReadAt    time.Time     // last time it was readable, complete and valid
	FullGetAt time.Time     // last 200 (C7)

	Status       int
	FinalURL     string
	Chain        []string // redirects: every URL asked, then FinalURL
	ETag         string
	LastModified string
	ContentType  string
	CacheControl string
	Link         []string // header values
	XRobots      []string // header values

	// Hash names the content that was read, and with it Body. Only Store.Doc
	// gives Body; a Lease leaves it out. A visit that writes the document with
	// the Hash that is stored keeps the stored Body, whether it hands Body in
	// again or leaves it nil. Any other Hash, and the empty one, replaces Body
	// with what is handed in.
	Hash    string
	Body    []byte   // catalogs and cards; pages keep Targets instead
	Targets []string // of a page: catalogs that its head names

	NoIndex    bool   // as judged at CheckedAt
	Fault      Reason // why it cannot be used now; "" when it can
	FaultText  string // a sentence
	FaultSince time.Time
	Fails      int // failures in a row

	// Needs are the other documents that its judgement rests on. When
	// one of them has news (Visit.Wake), this document becomes due.
	Needs []string
}

// NewDoc is a document that was heard of.
type NewDoc struct {
	URL     string // normal form
	Kind    Kind   // a hint; see Outweighs
	Class   Class
	From    string
	FoundBy string

	// Now makes a known document due at once, too (crawler add). Without it a
	// known document keeps its place; only its kind may change (Outweighs).
	Now bool
	// Ping is Now, at most once in 10 minutes an origin (OB-135).
	Ping bool
}

// LeaseRequest asks for work.
type LeaseRequest struct {
	Owner string // who asks; unique to a process
	Now   time.Time
	TTL   time.Duration // 0: 60 s (F2)
	Hosts int           // at most so many hosts
	Docs  int           // at most so many due documents a host; 0: 100
}

// Lease is one host, for one owner, until it ends. No other lease of that host
// exists meanwhile; a later lease has a higher No.
type Lease struct {
	Owner string
	No    int64
	Until time.Time
	Host  Host
	Docs  []Doc // due, by class and time; without Body, which Store.Doc gives
}

// Visit is everything that one lease brought to light. A store writes it
// whole or not at all.
type Visit struct {
	Host  string
	Owner string
	No    int64
	At    time.Time

	Gap       time.Duration
	NotBefore time.Time
	Fails     int
	IPKey     string
	Robots    *robots.File // nil: unchanged

	// Docs are written whole (but see Doc.Hash), all on Host. Those unknown are
	// added within Limits; one that is turned away takes its outcome and its
	// new entry with it.
	Docs     []Doc
	Drop     []string // URLs of documents to forget, on Host
	Found    []NewDoc // added if unknown, within Limits; at most MaxFound
	Entries  []Entry  // written whole, Seq and UpdatedAt excepted
	Outcomes []Outcome
	// Wake are URLs with news: documents that need one of them become due at At.
	// Those in Docs do not: this visit judged them with the news, or gave them
	// a time because of it.
	Wake []string
}

// Applied is what became of a visit.
type Applied struct {
	Fenced bool // the lease was lost: nothing was written (F3)
	// Err is what is wrong with the visit's own data: a document of another
	// host, an entry without a state, or a row that the database refuses.
	// Nothing of the visit was written and its lease still stands, so that the
	// caller can put the host off with another visit.
	Err     error
	Changes []Change // published, in order
	Capped  []NewDoc // turned away by Limits; the store wrote an outcome about it
}

// Limits bound what strangers can add within LimitWindow (A1, A2, D39). What
// the operator names is exempt and not counted (NewDoc.Exempt).
type Limits struct {
	// HostsPerDomain is for new hosts of one registrable domain; 0: 100.
	HostsPerDomain int
	// ForeignPerFinder is for new documents of any kind on other hosts that the
	// documents of one registrable domain (FoundBy) may bring, evidence that
	// its own cards need included; one that was given up and is named again
	// counts once; 0: 100.
	ForeignPerFinder int
	// NewPerHost is for new documents that a host's own documents name, and
	// apart from these for the new documents of a host that nobody's documents
	// name (submissions); 0: 1,000. All hosts of a registrable domain together
	// have ten times as many. Stores may count by the hour.
	NewPerHost int
}

// Outweighs reports whether the hint d about a known document's kind takes the
// place of the one it stands under, which is so only as long as nobody could
// read it: what it answers is stronger than any hint. Of two hints the first
// stays, but a person's outweighs that of a document of another host, that of
// a document of its own host outweighs both, and at the well-known address
// a catalog is expected whoever says otherwise.
func (d *NewDoc) Outweighs(known *Doc) bool {
	return d.Kind != known.Kind && known.ReadAt.IsZero() &&
		weight(d.URL, d.Kind, d.From) > weight(d.URL, known.Kind, known.From)
}

func weight(url string, k Kind, from string) int {
	u, err := weburl.Parse(url)
	if err != nil {
		return 0
	}
	f, err := weburl.Parse(from)
	switch {
	case k == CatalogDoc && u.Target() == catalog.WellKnownPath:
		return 3
	case err == nil && f.Authority() == u.Authority():
		return 2
	case from == "":
		return 1
	}
	return 0
}
