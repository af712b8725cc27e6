package publishercmd

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certCheck is how often the certificate files are looked at.
const certCheck = 30 * time.Second

// certFiles is a certificate that is read again when its file changes, so that
// renewing it needs no restart. A new pair that cannot be read is logged, and
// the old one stays in use.
type certFiles struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	changed time.Time // of the file that was read
	looked  time.Time
}

func (c *certFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair != nil && time.Since(c.looked) < certCheck {
		return c.pair, nil
	}
	c.looked = time.Now()
	err := c.read()
	if err == nil {
		return c.pair, nil
	}
	if c.pair == nil {
		return nil, err
	}
	c.log.Error("the new certificate cannot be used, the old one stays", "error", err)
	return c.pair, nil
}

func (c *certFiles) read() error {
	info, err := os.Stat(c.cert)
	if err != nil {
		return fileError("--tls-cert", c.cert, err)
	}
	if c.pair != nil && info.ModTime().Equal(c.changed) {
		return nil
	}
	if _, err := os.Stat(c.key); err != nil {
		return fileError("--tls-key", c.key, err)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s with --tls-key %s: %w", c.cert, c.key, err)
	}
	c.pair, c.changed = &pair, info.ModTime()
	return nil
}
