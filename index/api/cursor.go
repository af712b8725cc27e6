package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
)

// cursor is where a page ended and what it was a page of (IX-43). It needs no
// state on any node and no other parameter.
type cursor struct {
	Version  int
	Surface  string
	Query    string
	Limit    int
	Ranker   int
	Seq      int64 // of the page that gave it
	Position search.Position
}

const (
	cursorVersion = 2
	surfaceV1     = "v1"
	tagSize       = 16
)

// Conditions of a cursor.
var (
	errCursor = errors.New("the cursor is broken")
	errRanker = errors.New("the cursor is of another ranker version")
)

// cursors writes and reads cursors.
type cursors struct{ key []byte }

func (c cursors) tag(payload []byte) []byte {
	mac := hmac.New(sha256.New, c.key)
	mac.Write(payload)
	return mac.Sum(nil)[:tagSize]
}

// encode writes a cursor: octets, because a text of 200 characters and the
// counts of its words have to fit in maxCursor.
func (c cursors) encode(cur cursor) string {
	p := &cur.Position
	var w writer
	w.number(uint64(cur.Version))
	w.text(cur.Surface)
	w.number(uint64(cur.Ranker))
	w.text(cur.Query)
	w.number(uint64(cur.Limit))
	w.number(uint64(cur.Seq))
	w.number(uint64(p.Since))
	w.text(p.Epoch)
	w.number(uint64(p.Tier))
	w.number(uint64(p.Score))
	w.number(uint64(p.Depth))
	w.text(p.ID)
	w.number(uint64(len(p.Shown)))
	for _, id := range p.Shown {
		w.text(id)
	}
	w.text(string(p.Seen))
	w.text(string(p.Counts))
	text := base64.RawURLEncoding.EncodeToString(append(w, c.tag(w)...))
	if len(text) > maxCursor && len(p.Counts) > 0 {
		// An index of very many entries: their place may move a little.
		cur.Position.Counts, cur.Position.Seen = nil, nil
		return c.encode(cur)
	}
	return text
}

// decode reads a cursor of this surface. Errors are errCursor and errRanker.
func (c cursors) decode(text string) (cursor, error) {
	var cur cursor
	if len(text) > maxCursor {
		return cur, errCursor
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < tagSize {
		return cur, errCursor
	}
	payload, tag := data[:len(data)-tagSize], data[len(data)-tagSize:]
	if !hmac.Equal(tag, c.tag(payload)) {
		return cur, errCursor
	}
	r := reader{rest: payload}
	cur.Version = int(r.number())
	if r.bad || cur.Version != cursorVersion {
		return cur, errCursor
	}
	cur.Surface = r.text()
	if r.bad || cur.Surface != surfaceV1 {
		return cur, errCursor
	}
	if cur.Ranker = int(r.number()); !r.bad && cur.Ranker != search.RankerVersion {
		return cur, errRanker
	}
	p := &cur.Position
	cur.Query, cur.Limit, cur.Seq = r.text(), int(r.number()), int64(r.number())
	p.Since, p.Epoch = int64(r.number()), r.text()
	p.Tier, p.Score, p.Depth, p.ID = int(r.number()), int64(r.number()), int(r.number()), r.text()
	for n := r.number(); n > 0 && !r.bad; n-- {
		p.Shown = append(p.Shown, r.text())
	}
	p.Seen, p.Counts = []byte(r.text()), []byte(r.text())
	if r.bad || len(r.rest) > 0 {
		return cur, errCursor
	}
	return cur, nil
}

// writer puts numbers and texts in octets; hex digits, of ids above all, take
// half the room.
type writer []byte

func (w *writer) number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *writer) text(s string) {
	if raw, err := hex.DecodeString(s); err == nil && hex.EncodeToString(raw) == s && s != "" {
		w.number(uint64(len(raw))<<1 | 1)
		*w = append(*w, raw...)
		return
	}
	w.number(uint64(len(s)) << 1)
	*w = append(*w, s...)
}

// reader reads what a writer wrote. bad says that there was something else.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) text() string {
	n := r.number()
	if r.bad || n>>1 > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	raw := r.rest[:n>>1]
	r.rest = r.rest[n>>1:]
	if n&1 == 1 {
		return hex.EncodeToString(raw)
	}
	return string(raw)
}

func cursorOf(q string, limit int, head index.Head, p *search.Position) cursor {
	c := cursor{
		Version: cursorVersion, Surface: surfaceV1, Ranker: search.RankerVersion,
		Query: q, Limit: limit, Seq: head.Seq, Position: *p,
	}
	if c.Position.Epoch == "" { // of a listing
		c.Position.Epoch = head.Epoch
	}
	return c
}
