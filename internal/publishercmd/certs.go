package publishercmd

import (
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

// fileTLS reads the certificate once, so that a fault of it is one at the start.
func fileTLS(certs *certFiles, config *configFile) (*tls.Config, error) {
	pair, err := certs.get(nil)
	if err != nil {
		return nil, err
	}
	if host := hostOf(config.settings.Origin); pair.Leaf != nil {
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			certs.log.Warn("the certificate does not cover the host of the origin: nobody will trust this server under it", "host", host, "certificate", strings.Join(pair.Leaf.DNSNames, " "))
		}
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certs.get}, nil
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
