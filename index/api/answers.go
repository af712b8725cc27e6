package api

import (
	"bytes"
	"context"
	"net/http"
)

func (h *handler) getDescription(w http.ResponseWriter, r *http.Request) {
	for name := range r.URL.Query() {
		badParameter(clean(name), unknownParameter).write(w)
		return
	}
	tag := bodyTag(h.describe)
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", keepShort)
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(h.describe) // a client that is gone cannot be told anything
}

func (h *handler) listApps(ctx context.Context, in *listInput) (*document, error) {
	f, p := h.find(ctx, ask{q: in.Q, limit: in.Limit, cursor: in.Cursor, have: in.Have})
	if p != nil {
		return nil, p
	}
	return answer(in.Have, f.tag, f.encode)
}

// encode splices the items' bodies (IX-38).
func (f *found) encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i, m := range f.items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(m.body)
	}
	b.WriteByte(']')
	if f.next != "" {
		b.WriteString(`,"nextCursor":"` + f.next + `"`)
	}
	echo, err := encode(queryEcho{Tier: f.Tier, Words: f.Words})
	if err != nil {
		return nil, err
	}
	b.WriteString(`,"query":`)
	b.Write(echo)
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (h *handler) getApp(ctx context.Context, in *idInput) (*document, error) {
	return h.appDocument(ctx, in.ID, in.Have)
}

func (h *handler) getByCard(ctx context.Context, in *cardInput) (*document, error) {
	id, p := idOfCard(in.URL)
	if p != nil {
		return nil, p
	}
	return h.appDocument(ctx, id, in.Have)
}

func (h *handler) appDocument(ctx context.Context, id, have string) (*document, error) {
	e, p := h.entry(ctx, id)
	if p != nil {
		return nil, p
	}
	m, err := h.items.withDetail(e)
	if err != nil {
		return nil, err
	}
	return answer(have, m.tag, func() ([]byte, error) { return m.detail, nil })
}

func (h *handler) postSubmission(ctx context.Context, in *submitInput) (*document, error) {
	address, p := readSubmission(in.Type, in.RawBody)
	if p == nil {
		p = h.submit(ctx, address)
	}
	if p != nil {
		return nil, p
	}
	body, err := encode(acceptance)
	return &document{Status: http.StatusAccepted, ContentType: jsonType, CacheControl: "no-store", Body: body}, err
}

func (h *handler) getHealth(context.Context, *struct{}) (*document, error) {
	body, err := encode(health{"ok"})
	return &document{Status: http.StatusOK, ContentType: jsonType, CacheControl: "no-store", Body: body}, err
}

// getReady answers 503 while no index is loaded or its lag is out of bounds. A
// lost store only lets the lag grow (IX-13).
func (h *handler) getReady(ctx context.Context, _ *struct{}) (*document, error) {
	ctx, cancel := context.WithTimeout(ctx, readyDeadline)
	defer cancel()
	s := h.opts.Search.Status()
	head, err := h.opts.Store.Head(ctx)
	out := readiness{Loaded: s.Loaded, Epoch: s.Head.Epoch, Seq: s.Head.Seq, Head: head.Seq, StoreReachable: err == nil, Live: s.Live}
	if s.Loaded {
		lag := max(0, h.opts.Now().Sub(s.SyncedAt))
		out.LagSeconds, out.Ready = lag.Seconds(), lag <= h.opts.MaxLag
	}
	d := &document{Status: http.StatusOK, ContentType: jsonType, CacheControl: "no-store"}
	if !out.Ready {
		d.Status = http.StatusServiceUnavailable
	}
	d.Body, err = encode(out)
	return d, err
}
