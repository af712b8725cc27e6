package sqlite

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// leased remembers what this Store's leases handed out, so that a visit that
// comes back need not be compared with rows that are read once more. It may
// forget anything at any time: then the rows are read.
//
// It can be believed because a document's contents change only in a visit that
// passes the fence of its host's lease. What others may change meanwhile,
// class and time of the next visit, is not remembered.
type leased struct {
	seed maphash.Seed

	mu    sync.Mutex
	hosts map[string]handedOut
	most  int // hosts from which on those whose lease is over are looked for
}

// handedOut is one lease.
type handedOut struct {
	no    int64
	until time.Time
	docs  map[string]knownDoc // by URL
}

// knownDoc is what is known of a stored document.
type knownDoc struct {
	id    int64
	kind  index.Kind
	needs string
	hash  string
	body  bool   // whether there is one
	sum   uint64 // of its contents; 0: not known
}

// keeps reports whether the stored body stays when d is written.
func (k *knownDoc) keeps(d *index.Doc) bool {
	return d.Hash != "" && d.Hash == k.hash && (k.body || len(d.Body) == 0)
}

// remember keeps what leases handed out at now. docs are the documents of each
// lease, in the order of leases.
func (l *leased) remember(leases []index.Lease, docs []map[string]knownDoc, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		l.hosts = make(map[string]handedOut)
	}
	if len(l.hosts) >= max(l.most, 1024) {
		for name, h := range l.hosts {
			if h.until.Before(now) { // its owner is gone
				delete(l.hosts, name)
			}
		}
		l.most = 2 * len(l.hosts)
	}
	for i := range leases {
		l.hosts[leases[i].Host.Name] = handedOut{leases[i].No, leases[i].Until, docs[i]}
	}
}

// handed gives what the lease of a visit handed out, or nil.
func (l *leased) handed(v *index.Visit) map[string]knownDoc {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.hosts[v.Host]; h.no == v.No {
		return h.docs
	}
	return nil
}

// forget drops the leases that visits have ended.
func (l *leased) forget(visits []index.Visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range visits {
		if v := &visits[i]; l.hosts[v.Host].no == v.No {
			delete(l.hosts, v.Host)
		}
	}
}

// contents is a checksum of the columns that putTimes leaves alone, but that the
// hash stands for the body. The seed is random, so a stranger cannot make two
// documents that share one. It is never 0.
func (l *leased) contents(d *index.Doc, k *knownDoc) uint64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	number := func(n int64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		_, _ = h.Write(b[:])
	}
	texts := func(list ...string) {
		number(int64(len(list)))
		for _, s := range list {
			number(int64(len(s)))
			_, _ = h.WriteString(s)
		}
	}
	texts(string(d.Kind), d.From, d.FoundBy, d.FinalURL, d.ETag, d.LastModified, d.ContentType, d.CacheControl,
		d.Hash, string(d.Fault), d.FaultText, k.needs)
	number(micro(d.FirstSeen))
	number(micro(d.FaultSince))
	number(bit(d.NoIndex))
	texts(d.Chain...)
	texts(d.Link...)
	texts(d.XRobots...)
	texts(d.Targets...)
	number(bit(k.body))
	return max(h.Sum64(), 1)
}
