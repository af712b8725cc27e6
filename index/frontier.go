package index

import (
	"time"

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
	Hash         string
	Body         []byte   // catalogs and cards; pages keep Targets instead
	Targets      []string // of a page: catalogs that its head names

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
	Kind    Kind
	Class   Class
	From    string
	FoundBy string

	// Now makes a known document due at once, too (crawler add). Without it a
	// known document only keeps its place.
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
	Docs  []Doc // due, by class and time
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

	Docs     []Doc    // written whole, added when unknown; all on Host
	Drop     []string // URLs of documents to forget, on Host
	Found    []NewDoc // added if unknown, within Limits
	Entries  []Entry  // written whole, Seq and UpdatedAt excepted
	Outcomes []Outcome
	// Wake are URLs with news: documents that need one of them become due at At.
	// Those in Docs do not: this visit judged them with the news, or gave them
	// a time because of it.
	Wake []string
}

// Applied is what became of a visit.
type Applied struct {
	Fenced  bool     // the lease was lost: nothing was written (F3)
	Changes []Change // published, in order
	Capped  []NewDoc // turned away by Limits; the store wrote an outcome about it
}

// Limits bound what strangers can add (A1, A2, D39). Documents of ClassUser
// and documents on hosts already known are never turned away by HostsPerDomain.
type Limits struct {
	HostsPerDomain int // new hosts a registrable domain and day; 0: 100
	CardsPerFinder int // new cards on other hosts that documents of one registrable domain may bring, a day; 0: 100
}
