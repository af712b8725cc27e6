package fakenet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"sync"
	"time"
)

// ca is the certificate authority of the process. All leaves share one key.
type ca struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pool   *x509.CertPool
	serial int64
	mu     sync.Mutex
	leaves map[[2]string]*tls.Certificate // by host and state
}

// authority makes the certificate authority. Making keys and certificates needs
// only a source of random numbers, so failure means that nothing works.
var authority = sync.OnceValue(func() *ca {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "Internet in memory"},
		NotBefore:             begin,
		NotAfter:              end,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &ca{cert: cert, key: key, pool: pool, serial: 1, leaves: make(map[[2]string]*tls.Certificate)}
})

// A synctest bubble lives in the year 2000, other tests now.
var (
	begin = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	past  = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	end   = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
)

// leaf gives the certificate of a host: "ok", "expired" or "selfsigned".
func leaf(host, state string) (*tls.Certificate, error) {
	a := authority()
	a.mu.Lock()
	defer a.mu.Unlock()
	id := [2]string{host, state}
	if c := a.leaves[id]; c != nil {
		return c, nil
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial),
		Subject:      pkix.Name{CommonName: "leaf"},
		DNSNames:     []string{host},
		NotBefore:    begin,
		NotAfter:     end,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	parent := a.cert
	switch state {
	case "expired":
		template.NotAfter = past
	case "selfsigned":
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	a.leaves[id] = c
	return c, nil
}
