package publicnet

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// receive judges an answer by its headers and puts the limits around its body.
func (c *call) receive(req *http.Request, resp *http.Response) error {
	conditional := req.Header.Get("If-None-Match") != "" || req.Header.Get("If-Modified-Since") != ""
	switch {
	case resp.StatusCode == http.StatusNotModified && !conditional:
		return fmt.Errorf("%w: 304 to a request that was not conditional", ErrBadAnswer)
	case resp.StatusCode == http.StatusPartialContent && req.Header.Get("Range") == "":
		return fmt.Errorf("%w: 206, a part, to a request for the whole", ErrBadAnswer)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return fmt.Errorf("%w: 101 to a request that asked for no other protocol", ErrBadAnswer)
	}
	if resp.Body == http.NoBody || resp.ContentLength == 0 || req.Method == http.MethodHead {
		c.end()
		return nil
	}

	b := &body{call: c, raw: resp.Body, decoded: resp.Body, left: c.limits.MaxBytes, size: c.limits.MaxBytes}
	wire := c.limits.MaxBytes
	switch encoding := strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ",")); {
	case encoding == "", encoding == "identity":
	case (encoding == "gzip" || encoding == "x-gzip") && strings.Contains(req.Header.Get("Accept-Encoding"), "gzip"):
		// Bytes that do not compress grow a little.
		wire += wire/64 + 1024
		b.decoded = &gunzip{wire: bufio.NewReader(&cappedReader{resp.Body, wire})}
	default:
		return fmt.Errorf("%w: Content-Encoding %.40q was not offered", ErrBadAnswer, encoding)
	}
	if resp.ContentLength > wire && !c.limits.Truncate {
		return fmt.Errorf("%w: %d bytes are announced, the limit is %d", ErrTooLarge, resp.ContentLength, c.limits.MaxBytes)
	}
	b.small = SmallBody
	if b.decoded == io.Reader(resp.Body) && resp.ContentLength >= 0 {
		b.size, b.small = min(b.size, resp.ContentLength), 0
	}
	if b.size <= SmallBody || c.limits.Large == nil {
		b.small = -1
	}
	if b.decoded != io.Reader(resp.Body) {
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		resp.Uncompressed = true
	}
	resp.Body = b
	return nil
}

// body counts decoded octets and ends its call.
type body struct {
	call    *call
	raw     io.Closer
	decoded io.Reader
	left    int64 // octets that may still be delivered
	size    int64 // the most octets that there can be
	small   int64 // octets until Limits.Large is asked; negative: no more
	err     error // what the last read gave, and every later one gives
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.small == 0 {
		if b.err = b.grow(); b.err != nil {
			b.call.end()
			b.raw.Close()
			return 0, b.err
		}
	}
	if int64(len(p)) > b.left+1 { // one more tells a full body from a longer one
		p = p[:b.left+1]
	}
	if b.small > 0 && int64(len(p)) > b.small {
		p = p[:b.small]
	}
	n, err := b.decoded.Read(p)
	if b.small > 0 {
		b.small -= int64(n)
	}
	if int64(n) > b.left {
		n = int(b.left)
		err = fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, b.call.limits.MaxBytes)
	}
	b.left -= int64(n)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = b.call.explain(err)
		}
		b.err = err
		b.call.end()
		if !errors.Is(err, io.EOF) {
			b.raw.Close()
		}
	}
	return n, err
}

// grow asks for room for the whole body, with the request's clock stopped.
func (b *body) grow() error {
	b.small = -1
	b.call.lap.pause()
	defer b.call.lap.resume()
	if err := b.call.limits.Large(b.call.ctx, b.size); err != nil {
		return fmt.Errorf("make room for an answer of %d octets: %w", b.size, err)
	}
	return nil
}

func (b *body) Close() error {
	// The call's end comes first: an answer that is not wanted any more is not
	// read on for the sake of its connection.
	b.call.end()
	return b.raw.Close()
}

// cappedReader gives ErrTooLarge where io.LimitedReader gives io.EOF, so that a
// cut stream is not taken for a broken one.
type cappedReader struct {
	r    io.Reader
	left int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("%w: too many bytes on the wire", ErrTooLarge)
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.left -= int64(n)
	return n, err
}

var gzipReaders sync.Pool // of *gzip.Reader

// gunzip decodes one gzip member and insists that nothing follows it.
type gunzip struct {
	wire *bufio.Reader
	zr   *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.zr == nil {
		if zr, ok := gzipReaders.Get().(*gzip.Reader); ok {
			g.zr = zr
		} else {
			g.zr = new(gzip.Reader)
		}
		if err := g.zr.Reset(g.wire); err != nil {
			return 0, gzipFault(err)
		}
		g.zr.Multistream(false)
	}
	n, err := g.zr.Read(p)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		return n, gzipFault(err)
	}
	gzipReaders.Put(g.zr)
	switch _, err := g.wire.ReadByte(); {
	case errors.Is(err, io.EOF):
		return n, io.EOF
	case err == nil:
		return n, fmt.Errorf("%w: data after the gzip stream", ErrBadAnswer)
	default:
		return n, gzipFault(err)
	}
}

// gzipFault tells a stream that is broken from one that the network broke.
func gzipFault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the gzip stream ended early: %w", ErrBadAnswer, io.ErrUnexpectedEOF)
	}
	return err
}
