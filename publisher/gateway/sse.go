package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// stream reads an event stream (HTML Living Standard, server-sent events).
type stream struct {
	max    int64  // bytes of one event's data
	alive  func() // called for each line, comments too; may be nil
	named  func(event string, data []byte)
	lastID string
	retry  time.Duration
}

// read calls fn with the data of each message event, until the stream ends, an
// event is too large, or fn gives an error. The bytes are fn's for the call
// only. The end of the stream is io.EOF.
func (s *stream) read(r io.Reader, fn func(data []byte) error) error {
	in, ok := r.(*bufio.Reader)
	if !ok {
		in = bufio.NewReaderSize(r, 16<<10)
	}
	var data []byte
	has, event := false, ""
	for {
		line, tail, err := readLine(in, s.max+64)
		if s.alive != nil && len(line) > 0 {
			s.alive()
		}
		if tail != nil || int64(len(data)+len(line)) > s.max+64 {
			return tooLarge(s.max)
		}
		complete := bytes.HasSuffix(line, []byte("\n"))
		line = bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && complete:
			if has && (event == "" || event == "message") && len(data) > 0 {
				if err := fn(data); err != nil {
					return err
				}
			} else if has && s.named != nil {
				s.named(event, data)
			}
			data, has, event = nil, false, ""
		case string(name) == "data":
			if has {
				data = append(data, '\n')
			}
			data, has = append(data, value...), true
		case string(name) == "event":
			event = string(value)
		case string(name) == "id" && len(value) < 1<<10 && !bytes.ContainsRune(value, 0):
			s.lastID = string(value)
		case string(name) == "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 20); err == nil {
				s.retry = time.Duration(ms) * time.Millisecond
			}
		}
		if err != nil {
			return err
		}
	}
}

// pause is how long to wait before the stream is asked for again.
func (s *stream) pause() time.Duration {
	if s.retry == 0 {
		return time.Second
	}
	return min(s.retry, 30*time.Second)
}

// events is the channel of the older HTTP+SSE transport (2024-11-05): one
// stream of all messages, and an address to post to.
type events struct {
	*web
	post string
}

// openEvents opens the stream, for as long as life lasts, and waits for the
// address. The stream's end is the link's.
func openEvents(ctx, life context.Context, h *web) (*events, error) {
	e := &events{web: h}
	h.link.ch = e
	ready := make(chan error, 1)
	tell := func(err error) {
		select {
		case ready <- err:
		default: // told before
		}
	}
	h.work.Go(func() {
		tell(e.listen(life, tell))
		h.link.fail(errors.New("the upstream has closed its event stream"))
	})
	select {
	case err := <-ready:
		return e, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *events) listen(ctx context.Context, ready func(error)) error {
	req, err := e.request(ctx, http.MethodGet, nil)
	if err != nil {
		return err
	}
	resp, err := e.do(req, nil) //nolint:bodyclose // closed below
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || mediaType(resp) != "text/event-stream" {
		return &statusError{resp.StatusCode}
	}
	s := stream{max: e.max, named: func(event string, data []byte) {
		if event != "endpoint" || e.post != "" {
			return
		}
		// The credentials are for one origin: the stream cannot send them to another.
		base := resp.Request.URL
		u, err := base.Parse(string(data))
		if err != nil || u.Scheme != base.Scheme || u.Host != base.Host {
			ready(errors.New("the upstream names an address on another origin"))
			return
		}
		e.post = u.String()
		ready(nil)
	}}
	return s.read(resp.Body, func(data []byte) error {
		batch, err := parseMessages(data)
		if err != nil {
			return err
		}
		for _, m := range batch {
			e.link.receive(m, nil)
		}
		return nil
	})
}

func (e *events) perCall() bool { return false }

func (e *events) close() { e.work.Wait() }

func (e *events) send(ctx context.Context, msg *message, c *call) error {
	req, err := e.request(ctx, http.MethodPost, encode(msg))
	if err != nil {
		return err
	}
	if req.URL, err = url.Parse(e.post); err != nil {
		return errors.New("the upstream's address cannot be used")
	}
	resp, err := e.do(req, c)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxHeader)
	if resp.StatusCode >= 300 {
		return &statusError{resp.StatusCode}
	}
	return nil
}
