package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// cursor is where a page ended and what it was a page of (IX-43). It needs no
// state on any node and no other parameter.
type cursor struct {
	Version int      `json:"v"`
	Surface string   `json:"f"`
	Query   string   `json:"q,omitempty"`
	Limit   int      `json:"n"`
	Tier    int      `json:"t,omitempty"`
	Score   int64    `json:"s,omitempty"`
	ID      string   `json:"i,omitempty"`
	Depth   int      `json:"d"`
	Shown   []string `json:"h,omitempty"`
	Epoch   string   `json:"e"`
	Seq     int64    `json:"c"`
	Ranker  int      `json:"r"`
}

const (
	cursorVersion = 1
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

func (c cursors) encode(cur cursor) (string, error) {
	payload, err := encode(cur)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(payload, c.tag(payload)...)), nil
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
	if err := strictjson.Unmarshal(payload, &cur); err != nil || cur.Version != cursorVersion || cur.Surface != surfaceV1 {
		return cur, errCursor
	}
	if cur.Ranker != search.RankerVersion {
		return cur, errRanker
	}
	return cur, nil
}

func cursorOf(q string, limit int, head index.Head, p *search.Position) cursor {
	return cursor{
		Version: cursorVersion, Surface: surfaceV1, Query: q, Limit: limit,
		Tier: p.Tier, Score: p.Score, ID: p.ID, Depth: p.Depth, Shown: p.Shown,
		Epoch: head.Epoch, Seq: head.Seq, Ranker: search.RankerVersion,
	}
}

func (c cursor) position() *search.Position {
	return &search.Position{Tier: c.Tier, Score: c.Score, ID: c.ID, Depth: c.Depth, Shown: c.Shown}
}
