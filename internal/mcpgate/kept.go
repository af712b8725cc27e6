package mcpgate

import (
	"hash/maphash"
	"slices"
	"sync"
)

// lists keeps the JSON of lists that are asked for again and again. A list is
// known by the things it points to, which do not change once a server has them;
// so nothing that middleware leaves out, replaces or adds for one caller can be
// shown to another, and a change on the server needs no notice.
type lists[T any] struct {
	mu   sync.Mutex
	kept []keptList[T] // newest first
}

type keptList[T any] struct {
	items []*T
	text  []byte
}

// keptLists is how many pages of one kind of list are kept.
const keptLists = 16

// text is the JSON array of items. It must not be changed.
func (l *lists[T]) text(items []*T) ([]byte, error) {
	if len(items) == 0 {
		return []byte("[]"), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept {
		if slices.Equal(k.items, items) {
			return k.text, nil
		}
	}
	a := newAnswer().(*answer)
	if err := a.value(items); err != nil {
		return nil, err
	}
	if len(l.kept) == keptLists {
		l.kept = l.kept[:keptLists-1]
	}
	l.kept = slices.Insert(l.kept, 0, keptList[T]{slices.Clone(items), a.Bytes()})
	return a.Bytes(), nil
}

// texts keeps the JSON of long texts that were asked for more than once, such as
// the HTML of a view.
type texts struct {
	mu   sync.Mutex
	kept map[string][]byte
	size int
	seen map[uint64]struct{}
	seed maphash.Seed
}

const (
	minText  = 1 << 10  // shorter ones cost nothing to encode
	maxTexts = 16 << 20 // of JSON that is kept
	maxSeen  = 1 << 12
)

// text is the JSON string of s. It must not be changed.
func (t *texts) text(s string) []byte {
	t.mu.Lock()
	kept, ok := t.kept[s]
	t.mu.Unlock()
	if ok {
		return kept
	}
	a := newAnswer().(*answer)
	_ = a.value(s) // every string can be encoded
	sum := maphash.String(t.seed, s)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, again := t.seen[sum]; !again {
		if len(t.seen) == maxSeen {
			clear(t.seen)
		}
		t.seen[sum] = struct{}{}
		return a.Bytes()
	}
	if t.size += a.Len() + len(s); t.size > maxTexts {
		clear(t.kept)
		t.size = a.Len() + len(s)
	}
	if t.size <= maxTexts {
		t.kept[s] = a.Bytes()
	}
	return a.Bytes()
}

func newTexts() *texts {
	return &texts{kept: map[string][]byte{}, seen: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
}
