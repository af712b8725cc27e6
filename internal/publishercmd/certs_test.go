package publishercmd

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"
)

// A renewed certificate is taken up; one that cannot be read is not.
func TestCertificateIsReadAgain(t *testing.T) {
	cert, key, _ := certificate(t, "one.example.com")
	var logged logBuffer
	c := &certFiles{cert: cert, key: key, log: newLogger(&Env{Stderr: &logged}, "text")}
	name := func() string {
		t.Helper()
		c.looked = time.Time{}
		pair, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.DNSNames[0]
	}
	if got := name(); got != "one.example.com" {
		t.Errorf("got %s", got)
	}
	replace := func(file, with string, age time.Duration) {
		t.Helper()
		data, err := os.ReadFile(with)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err == nil {
			err = os.Chtimes(file, time.Now(), time.Now().Add(age))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cert2, key2, _ := certificate(t, "two.example.com")
	replace(cert, cert2, time.Minute) // the key is not there yet
	if got := name(); got != "one.example.com" || !strings.Contains(logged.String(), "the old one stays") {
		t.Errorf("got %s, log %s", got, &logged)
	}
	replace(key, key2, time.Minute)
	if got := name(); got != "two.example.com" {
		t.Errorf("got %s", got)
	}
}

// SIGHUP reads the certificate at once, even if its time is the same.
func TestCertificateIsReadAgainOnSIGHUP(t *testing.T) {
	cert, key, pool := certificate(t, "apps.example.com")
	info, err := os.Stat(cert)
	if err != nil {
		t.Fatal(err)
	}
	log, _ := start(t, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	works := func(pool *x509.CertPool) bool {
		d := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "apps.example.com", MinVersion: tls.VersionTLS12}}
		conn, err := d.DialContext(t.Context(), "tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	cert2, key2, pool2 := certificate(t, "apps.example.com")
	if !works(pool) || works(pool2) {
		t.Fatal("the first certificate is not used")
	}
	for file, with := range map[string]string{cert: cert2, key: key2} {
		data, err := os.ReadFile(with)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err == nil {
			err = os.Chtimes(file, info.ModTime(), info.ModTime())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hangUp(t)
	log.wait(t, `msg="the certificate was read again"`)
	if works(pool) || !works(pool2) {
		t.Error("the new certificate is not used")
	}
	rewrite(t, cert, "nonsense")
	hangUp(t)
	log.wait(t, `msg="the new certificate cannot be used, the old one stays"`)
	if !works(pool2) {
		t.Error("a faulty certificate ended the old one")
	}
}

// A certificate that cannot be read is found before an upstream is started.
func TestCertificateIsCheckedFirst(t *testing.T) {
	for _, args := range [][]string{{"--tls-cert", "none.pem", "--tls-key", "none.pem"}, nil} {
		dir := t.TempDir()
		config := strings.Replace(upstreamConfigText, "[test-upstream]", "[touch, "+dir+"/started]", 1)
		if args == nil {
			config += "tls: {cert: none.pem, key: none.pem}\n"
		}
		env := demoEnv()
		log := &logBuffer{}
		env.Stdout, env.Stderr = log, log
		if code := Run(t.Context(), append([]string{"serve", "--config", write(t, "c.yaml", config), "--listen", "127.0.0.1:0"}, args...), env); code == 0 || !strings.Contains(log.String(), "none.pem") {
			t.Errorf("%v: exit %d\n%s", args, code, log)
		}
		if _, err := os.Stat(dir + "/started"); err == nil {
			t.Errorf("%v: the upstream was started", args)
		}
	}
}
