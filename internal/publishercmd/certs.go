package publishercmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// certCheck is how often the certificate files are looked at.
const certCheck = 30 * time.Second

// certFiles is a certificate that is read again when its file changes, so that
// renewing it needs no restart. A new pair that cannot be read is logged, and
// the old one stays in use.
type certFiles struct {
	cert, key         string
	certName, keyName string // where they were named, for errors
	log               *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	changed time.Time // of the file that was read
	looked  time.Time
}

// first reads the certificate once, so that a fault of it is one at the start.
// host is the origin's.
func (c *certFiles) first(host string) error {
	pair, err := c.get(nil)
	if err != nil {
		return err
	}
	if pair.Leaf != nil && pair.Leaf.VerifyHostname(host) != nil {
		c.log.Warn("the certificate does not cover the host of the origin: nobody will trust this server under it", "host", host, "certificate", strings.Join(pair.Leaf.DNSNames, " "))
	}
	return nil
}

func (c *certFiles) tlsConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

func (c *certFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair != nil && time.Since(c.looked) < certCheck {
		return c.pair, nil
	}
	return c.look()
}

// watch reads the files again when hup asks for it, until ctx ends.
func (c *certFiles) watch(ctx context.Context, hup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			c.again()
		}
	}
}

// again reads the files now, whatever their times say: the operator asks.
func (c *certFiles) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.pair
	c.changed = time.Time{}
	if _, err := c.look(); err == nil && c.pair != was {
		c.log.Info("the certificate was read again", "file", c.cert)
	}
}

// look reads the files if they have changed. The caller holds c.mu.
func (c *certFiles) look() (*tls.Certificate, error) {
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
		return fileError(c.certName, c.cert, err)
	}
	if c.pair != nil && info.ModTime().Equal(c.changed) {
		return nil
	}
	if _, err := os.Stat(c.key); err != nil {
		return fileError(c.keyName, c.key, err)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("%s %s with %s %s: %w", c.certName, c.cert, c.keyName, c.key, err)
	}
	c.pair, c.changed = &pair, info.ModTime()
	return nil
}
