package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// ask is a search as a request gives it.
type ask struct {
	q      string
	limit  int // 0: the cursor's, else defaultLimit
	cursor string
	have   string // ETags that the client has; then there are no items
}

// found is a page of results.
type found struct {
	*search.Page
	q     string
	items []*made
	next  string // cursor; "" on the last page
	tag   string // ETag
}

// find answers a search or a listing. Both surfaces, JSON and page, use it.
func (h *handler) find(ctx context.Context, a ask) (*found, *problem) {
	if !utf8.ValidString(a.q) {
		return nil, badParameter("q", "must be UTF-8")
	}
	query := search.Query{Text: search.CleanQuery(a.q), Limit: a.limit}
	if a.cursor != "" {
		cur, err := h.cursors.decode(a.cursor)
		switch {
		case errors.Is(err, errRanker):
			return nil, newProblem(http.StatusGone, "the index ranks by other rules since this cursor was given; begin the search anew")
		case err != nil:
			return nil, badParameter("cursor", "must be one that this index gave; begin the search anew")
		case query.Text != "" && query.Text != cur.Query:
			return nil, badParameter("q", "must be the query that the cursor belongs to; leave q out, or begin anew without a cursor")
		case query.Limit != 0 && query.Limit != cur.Limit:
			return nil, badParameter("limit", fmt.Sprintf("must be that of the cursor, %d; leave limit out, or begin anew without a cursor", cur.Limit))
		}
		query.Text, query.Limit, query.After = cur.Query, cur.Limit, &cur.Position
		h.await(ctx, cur)
	}
	if query.Limit == 0 {
		query.Limit = defaultLimit
	}
	if n := utf8.RuneCountInString(query.Text); n > search.MaxQueryRunes {
		return nil, badParameter("q", mustBe["q"])
	}

	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		h.metrics.shed.Add(ctx, 1)
		return nil, later(http.StatusServiceUnavailable, time.Second, "too many searches at once; come again in a moment")
	}
	ctx, cancel := context.WithTimeout(ctx, searchDeadline)
	defer cancel()
	begin := time.Now()
	page, err := h.opts.Search.Search(ctx, query)
	switch {
	case errors.Is(err, search.ErrNotLoaded):
		return nil, later(http.StatusServiceUnavailable, 5*time.Second, "the search index is not loaded yet")
	case errors.Is(err, search.ErrQuery):
		return nil, newProblem(http.StatusBadRequest, "cursor, limit or q: "+strings.TrimPrefix(err.Error(), search.ErrQuery.Error()+": "))
	case err != nil:
		return nil, later(http.StatusServiceUnavailable, time.Second, "the search took too long")
	}
	h.metrics.searched(ctx, page.Tier, time.Since(begin))

	f := &found{Page: page, q: query.Text, tag: listTag(page.Head, query.Text, strconv.Itoa(query.Limit), a.cursor)}
	if matches(a.have, f.tag) {
		return f, nil
	}
	if page.Next != nil {
		f.next = h.cursors.encode(cursorOf(query.Text, query.Limit, page.Head, page.Next))
	}
	for _, hit := range page.Hits {
		if ctx.Err() != nil {
			return nil, later(http.StatusServiceUnavailable, time.Second, "the search took too long")
		}
		m, err := h.items.of(hit.Entry)
		if err != nil {
			return nil, newProblem(http.StatusInternalServerError, ourFault)
		}
		f.items = append(f.items, m)
	}
	return f, nil
}

// ourFault is all that an answer tells of what went wrong inside.
const ourFault = "the index could not answer; the fault is on its side"

// await waits up to a second for this node to reach the point that a cursor
// has seen on another one (IX-44).
func (h *handler) await(ctx context.Context, cur cursor) {
	for range 20 {
		s := h.opts.Search.Status()
		if !s.Loaded || s.Head.Epoch != cur.Position.Epoch || s.Head.Seq >= cur.Seq {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// bodyVersion is one number for all that makes a body of an entry: another one
// makes clients ask anew when the same entry is told in another way.
const bodyVersion = 2

// listTag is the ETag of an answer that depends on the whole index (IX-62). It
// is weak: on its way the body may be compressed.
func listTag(head index.Head, parts ...string) string {
	sum := sha256.New()
	for _, s := range append(parts, head.Epoch, strconv.Itoa(search.RankerVersion), strconv.Itoa(bodyVersion)) {
		fmt.Fprintf(sum, "%d:%s", len(s), s)
	}
	return fmt.Sprintf(`W/"%d-%s"`, head.Seq, hex.EncodeToString(sum.Sum(nil)[:12]))
}

// bodyTag is the ETag of an answer that depends on its bytes alone.
func bodyTag(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches compares an If-None-Match header with a tag, weakly (RFC 9110
// section 13.1.2).
func matches(header, tag string) bool {
	for header != "" {
		var one string
		one, header, _ = strings.Cut(header, ",")
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// entry gives one app: from memory, else from the store. An entry that readers
// do not see is a 410 while its tombstone stays.
func (h *handler) entry(ctx context.Context, id string) (*index.Entry, *problem) {
	if e, ok := h.opts.Search.Entry(id); ok {
		return e, nil
	}
	ctx, cancel := storeTime(ctx)
	defer cancel()
	e, err := h.opts.Store.Get(ctx, id)
	switch {
	case errors.Is(err, index.ErrNotFound):
		return nil, newProblem(http.StatusNotFound, "no app of this address is in the index; POST /v1/submissions makes the crawler look at it")
	case err != nil:
		h.log.Error("index API cannot read the store", "error", err)
		return nil, later(http.StatusServiceUnavailable, 5*time.Second, "the index cannot read its store at present")
	case !e.State.Searchable():
		p := newProblem(http.StatusGone, "this app is not in the index any more")
		p.Gone = &tombstone{
			CardURL: e.CardURL, Name: clean(e.Name), Version: clean(e.Version),
			State: string(e.State), Reason: string(e.Reason), At: e.UpdatedAt.UTC(),
		}
		return nil, p
	}
	return e, nil
}

// storeTime bounds one call of the store: a request does not wait for a store
// that hangs.
func storeTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, storeDeadline)
}

// idOfCard gives the id for the address of a card, which need not be in normal
// form (D5).
func idOfCard(address string) (string, *problem) {
	if address == "" {
		return "", badParameter("url", mustBe["url"])
	}
	u, err := weburl.Parse(address)
	if err != nil {
		return "", badParameter("url", "cannot be used: "+err.Error())
	}
	return index.ID(u.String()), nil
}

func isID(s string) bool {
	if len(s) != sha256.Size*2 {
		return false
	}
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}
