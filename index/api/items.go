package api

import (
	"sync"

	"github.com/openbot-build/openbot-go/index"
)

// made is what answers show of one entry, worked out once. It is immutable, as
// the entry is.
type made struct {
	item   *item
	body   []byte // the item's JSON
	detail []byte // its JSON with the card; nil until it is asked for
	tag    string // ETag of detail
}

// items keeps what was made: most answers show the same few (IX-38). Strangers
// write the entries, so their octets are counted and not their number. What
// was asked for lately stays: when the newer half is full it becomes the older
// one, which goes.
type items struct {
	most int // octets of each half; 0: keptOctets

	mu       sync.Mutex
	now, old map[*index.Entry]*made
	octets   int // of now
}

const keptOctets = 16 << 20

// weight is what keeping m costs, about: item and body hold the same texts,
// and an entry that has left the index stays while it is a key.
func weight(e *index.Entry, m *made) int {
	return 1024 + 2*len(m.body) + len(m.detail) + len(e.Document)
}

// of gives what is made of an entry.
func (k *items) of(e *index.Entry) (*made, error) {
	if m := k.find(e); m != nil {
		return m, nil
	}
	it, _ := itemOf(e)
	body, err := encode(it)
	if err != nil {
		return nil, err
	}
	m := &made{item: it, body: body}
	k.keep(e, m)
	return m, nil
}

// withDetail gives what is made of an entry, detail included.
func (k *items) withDetail(e *index.Entry) (*made, error) {
	if m := k.find(e); m != nil && m.detail != nil {
		return m, nil
	}
	it, c := itemOf(e)
	body, err := encode(it)
	if err != nil {
		return nil, err
	}
	m := &made{item: it, body: body}
	if m.detail, err = detailOf(it, c); err != nil {
		return nil, err
	}
	m.tag = bodyTag(m.detail)
	k.keep(e, m)
	return m, nil
}

func (k *items) find(e *index.Entry) *made {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.now[e]
	if !ok {
		if m, ok = k.old[e]; ok {
			k.put(e, m)
		}
	}
	return m
}

func (k *items) keep(e *index.Entry, m *made) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(e, m)
}

// put is for whoever holds the lock.
func (k *items) put(e *index.Entry, m *made) {
	most := k.most
	if most == 0 {
		most = keptOctets
	}
	if k.now == nil || k.octets+weight(e, m) > most {
		k.old, k.now, k.octets = k.now, make(map[*index.Entry]*made), 0
	}
	if before := k.now[e]; before != nil {
		k.octets -= weight(e, before)
	}
	k.now[e] = m
	k.octets += weight(e, m)
}
