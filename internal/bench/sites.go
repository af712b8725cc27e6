package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
)

const catalogPath = "/.well-known/ai-catalog.json"

func siteOrigin(i int) string { return fmt.Sprintf("https://site%d.example.com", i) }

// siteNumber is the number of a site's host name.
func siteNumber(host string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(host, "."), ".example.com"), "site"))
	if err != nil {
		return 0, fmt.Errorf("no site %q: %w", host, err)
	}
	return n, nil
}

// authority signs a certificate for each site, so that no client can profit
// from having seen one before.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate

	mu    sync.Mutex
	leafs map[string]*tls.Certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate("Bench", func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	}), certificate("Bench", nil), &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{key: key, cert: cert, leafs: make(map[string]*tls.Certificate)}, nil
}

func certificate(name string, change func(*x509.Certificate)) *x509.Certificate {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(c)
	}
	return c
}

func (a *authority) leaf(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leafs[hello.ServerName]; c != nil {
		return c, nil
	}
	template := certificate(hello.ServerName, func(c *x509.Certificate) { c.DNSNames = []string{hello.ServerName} })
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	a.leafs[hello.ServerName] = c
	return c, nil
}

// serveSites is the server process of the crawl: every name that it is asked
// for is a site with a robots.txt, a catalog and a card.
func serveSites() error {
	a, err := newAuthority()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(serveSite), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{GetCertificate: a.leaf, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = server.ServeTLS(l, "", "") }()
	return tell(map[string]any{
		"Server": l.Addr().String(),
		"Roots":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}),
	})
}

func serveSite(w http.ResponseWriter, r *http.Request) {
	origin := "https://" + r.Host
	kind, body := "application/json", []byte(nil)
	var err error
	switch r.URL.Path {
	case "/robots.txt":
		kind, body = "text/plain; charset=utf-8", []byte("User-agent: *\nDisallow: /admin/\nDisallow: /search\nAllow: /search/about\nSitemap: "+origin+"/sitemap.xml\n")
	case catalogPath:
		kind = "application/ai-catalog+json"
		body, err = catalog.Build(nil, []catalog.Item{{Identifier: "urn:air:" + r.Host + ":mcp:calendar", DisplayName: "Example Calendar", URL: origin + cardPath}})
	case cardPath:
		kind = "application/mcp-server-card+json"
		c := exampleCard()
		c.Schema = card.SchemaURL
		c.Remotes = []card.Remote{{Type: "streamable-http", URL: origin + "/mcp/calendar", Versions: []string{card.ProtocolVersion}}}
		body, err = c.Encode()
	default:
		err = errors.New("not found")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("ETag", `"`+strconv.Itoa(len(body))+`"`)
	_, _ = w.Write(body)
}

func (t *trip) roots() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(t.Roots) {
		return nil, errors.New("the server told no certificate")
	}
	return pool, nil
}
