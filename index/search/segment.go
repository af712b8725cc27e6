package search

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/openbot-build/openbot-go/index"
)

// segment is an immutable inverted index of some entries. Its documents are
// numbered in the order of their ids.
type segment struct {
	entries  []*index.Entry
	standing []uint8

	terms  []string // sorted
	starts []uint32 // of a term's postings; one more than terms
	docs   []uint32
	parts  []uint16
}

// doc finds a document by id.
func (s *segment) doc(id string) (uint32, bool) {
	i, ok := slices.BinarySearchFunc(s.entries, id, func(e *index.Entry, id string) int { return strings.Compare(e.ID, id) })
	return uint32(i), ok
}

// term finds a term's number.
func (s *segment) term(term string) (int, bool) { return slices.BinarySearch(s.terms, term) }

// postings are the documents of a term, in order, and its part in each.
func (s *segment) postings(term int) (docs []uint32, parts []uint16) {
	from, to := s.starts[term], s.starts[term+1]
	return s.docs[from:to], s.parts[from:to]
}

// buildSegment makes a segment of entries, which are sorted by id, each once.
func buildSegment(entries []*index.Entry) *segment {
	type triple struct {
		term uint32
		doc  uint32
		part uint16
	}
	s := &segment{entries: entries, standing: make([]uint8, len(entries))}
	a := newAnalyzer()
	number := make(map[string]uint32)
	var all []triple
	for doc, e := range entries {
		s.standing[doc] = standing(e)
		for _, t := range a.terms(e) {
			n, ok := number[t.term]
			if !ok {
				n = uint32(len(s.terms))
				term := strings.Clone(t.term) // else it keeps the entry's text alive
				number[term] = n
				s.terms = append(s.terms, term)
			}
			all = append(all, triple{n, uint32(doc), t.part})
		}
	}
	slices.Sort(s.terms)
	rank := make([]uint32, len(s.terms)) // by first appearance
	s.starts = make([]uint32, len(s.terms)+1)
	for i, term := range s.terms {
		rank[number[term]] = uint32(i)
	}
	for _, t := range all {
		s.starts[rank[t.term]+1]++
	}
	for i := range s.terms {
		s.starts[i+1] += s.starts[i]
	}
	next := slices.Clone(s.starts)
	s.docs, s.parts = make([]uint32, len(all)), make([]uint16, len(all))
	for _, t := range all {
		at := &next[rank[t.term]]
		s.docs[*at], s.parts[*at] = t.doc, t.part
		*at++
	}
	return s
}

// view is a segment with the documents that died since it was built.
type view struct {
	*segment
	dead *tomb // nil when all live
}

// tomb is immutable, too: an update makes a new one.
type tomb struct {
	n    int
	bits []uint64
	df   []uint32 // dead documents by term
}

func (v view) isDead(doc uint32) bool {
	return v.dead != nil && v.dead.bits[doc/64]&(1<<(doc%64)) != 0
}

// live is the number of live documents.
func (v view) live() int {
	if v.dead == nil {
		return len(v.entries)
	}
	return len(v.entries) - v.dead.n
}

// df is the number of live documents that hold a term (IX-29).
func (v view) df(term int) int {
	n := int(v.starts[term+1] - v.starts[term])
	if v.dead != nil {
		n -= int(v.dead.df[term])
	}
	return n
}

// without gives the view after the death of docs, live until now.
func (v view) without(docs []uint32, a *analyzer) view {
	t := &tomb{n: len(docs)}
	if v.dead == nil {
		t.bits, t.df = make([]uint64, (len(v.entries)+63)/64), make([]uint32, len(v.terms))
	} else {
		t.n += v.dead.n
		t.bits, t.df = slices.Clone(v.dead.bits), slices.Clone(v.dead.df)
	}
	for _, doc := range docs {
		t.bits[doc/64] |= 1 << (doc % 64)
		for _, p := range a.terms(v.entries[doc]) {
			if term, ok := v.term(p.term); ok {
				t.df[term]++
			}
		}
	}
	return view{v.segment, t}
}

// merge makes one segment of the live documents of several.
func merge(views []view) *segment {
	type origin struct{ view, doc int }
	var from []origin
	for i, v := range views {
		for doc := range v.entries {
			if !v.isDead(uint32(doc)) {
				from = append(from, origin{i, doc})
			}
		}
	}
	id := func(o origin) string { return views[o.view].entries[o.doc].ID }
	slices.SortFunc(from, func(a, b origin) int { return strings.Compare(id(a), id(b)) })

	s := &segment{entries: make([]*index.Entry, len(from)), standing: make([]uint8, len(from)), starts: []uint32{0}}
	to := make([][]uint32, len(views)) // new number of each document
	for i, v := range views {
		to[i] = make([]uint32, len(v.entries))
	}
	for doc, o := range from {
		s.entries[doc] = views[o.view].entries[o.doc]
		s.standing[doc] = views[o.view].standing[o.doc]
		to[o.view][o.doc] = uint32(doc)
	}

	type posting struct {
		doc  uint32
		part uint16
	}
	var list []posting
	next := make([]int, len(views)) // first term not yet merged
	for {
		term, found := "", false
		for i, v := range views {
			if next[i] < len(v.terms) && (!found || v.terms[next[i]] < term) {
				term, found = v.terms[next[i]], true
			}
		}
		if !found {
			return s
		}
		list = list[:0]
		lists := 0
		for i, v := range views {
			if next[i] == len(v.terms) || v.terms[next[i]] != term {
				continue
			}
			docs, parts := v.postings(next[i])
			for k, doc := range docs {
				if !v.isDead(doc) {
					list = append(list, posting{to[i][doc], parts[k]})
				}
			}
			next[i]++
			lists++
		}
		if len(list) == 0 {
			continue // no live entry has it any more
		}
		if lists > 1 {
			slices.SortFunc(list, func(a, b posting) int { return cmp.Compare(a.doc, b.doc) })
		}
		s.terms = append(s.terms, term)
		for _, p := range list {
			s.docs, s.parts = append(s.docs, p.doc), append(s.parts, p.part)
		}
		s.starts = append(s.starts, uint32(len(s.docs)))
	}
}

// prefix gives the numbers of the terms that begin with p: from, to.
func (s *segment) prefix(p string) (from, to int) {
	from, _ = slices.BinarySearch(s.terms, p)
	to = from + sort.Search(len(s.terms)-from, func(i int) bool { return !strings.HasPrefix(s.terms[from+i], p) })
	return from, to
}
