package publishercmd

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/internal/weburl"
)

// tlsConfig is where the certificate comes from.
type tlsConfig struct {
	Cert string      `yaml:"cert"`
	Key  string      `yaml:"key"`
	ACME *acmeConfig `yaml:"acme"`
}

// acmeConfig gets the certificate of the origin's host from an ACME server.
type acmeConfig struct {
	Email     string `yaml:"email"`
	Directory string `yaml:"directory"` // "" is Let's Encrypt
	Storage   string `yaml:"storage"`   // folder
	Agree     bool   `yaml:"agree"`     // to the server's terms
	HTTP      string `yaml:"http"`      // address for HTTP-01; "" is none
}

// letsEncrypt is asked unless the configuration names another server.
const letsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// limits bound what callers may use. What is not set has no limit of ours; the
// endpoint has its own.
type limits struct {
	Body    verbatim `yaml:"body"`    // of one request to an endpoint
	Streams int      `yaml:"streams"` // open at one time, of each app
	Client  *quota   `yaml:"client"`  // of each client address, at all endpoints that have none of their own
	App     *quota   `yaml:"app"`     // of each app

	body int64
}

// quota is how much one party may call.
type quota struct {
	Rate       float64 `yaml:"rate"`       // calls a second; 0 is no limit
	Burst      int     `yaml:"burst"`      // calls at once; 0 is one second's
	Concurrent int     `yaml:"concurrent"` // calls under way; 0 is no limit
}

// telemetry is where traces go.
type telemetry struct {
	OTLP   string   `yaml:"otlp"`   // of an OTLP collector over HTTP
	Sample *float64 `yaml:"sample"` // share of requests that are traced; nil is all
}

// maxBody is what limits.body may be at most: a request is held in memory.
const maxBody = 64 << 20

// checkTuning finds the faults of everything that is not published.
func (c *configFile) checkTuning() {
	bad := func(path, format string, args ...any) {
		c.faults = append(c.faults, c.fault(path, fmt.Sprintf(format, args...)))
	}
	if t := c.settings.TLS; t != nil {
		c.checkTLS(t, bad)
	}
	if l := c.settings.Limits; l != nil {
		l.check("limits", bad)
	}
	for i := range c.settings.Apps {
		a := &c.settings.Apps[i]
		if a.Limits == nil {
			continue
		}
		path := fmt.Sprintf("apps[%d].limits", i)
		a.Limits.check(path, bad)
		if a.Builtin == "" && a.Upstream == nil {
			bad(path, "have no effect on an endpoint that runs elsewhere")
		}
	}
	if t := c.settings.Telemetry; t != nil {
		if t.OTLP != "" {
			if err := checkCollector(t.OTLP); err != nil {
				bad("telemetry.otlp", "%v", err)
			}
		}
		if t.Sample != nil && (math.IsNaN(*t.Sample) || *t.Sample < 0 || *t.Sample > 1) {
			bad("telemetry.sample", "write a share between 0 and 1")
		}
	}
}

// check finds the faults of limits that stand at a path.
func (l *limits) check(path string, bad func(path, format string, args ...any)) {
	if l.Body != "" {
		var err error
		switch l.body, err = parseSize(string(l.Body)); {
		case err != nil:
			bad(path+".body", "%v", err)
		case l.body > maxBody:
			bad(path+".body", "a request is held in memory: write 64MiB or less")
		}
	}
	if l.Streams < 0 {
		bad(path+".streams", "write a number above 0, or leave it out")
	}
	for name, q := range map[string]*quota{"client": l.Client, "app": l.App} {
		if q == nil {
			continue
		}
		path := path + "." + name
		if q.Rate < 0 || math.IsNaN(q.Rate) || math.IsInf(q.Rate, 0) {
			bad(path+".rate", "write calls a second, above 0, or leave it out")
		}
		if q.Burst < 0 || q.Burst > 0 && q.Rate == 0 {
			bad(path+".burst", "write how many calls may come at once, above 0, together with rate")
		}
		if q.Concurrent < 0 {
			bad(path+".concurrent", "write a number above 0, or leave it out")
		}
	}
}

// limits are those of app i: its own, and the general ones where it has none.
func (c *configFile) limits(i int) limits {
	var l limits
	if c.settings.Limits != nil {
		l = *c.settings.Limits
	}
	own := c.settings.Apps[i].Limits
	if own == nil {
		return l
	}
	if own.Body != "" {
		l.Body, l.body = own.Body, own.body
	}
	l.Streams = cmp.Or(own.Streams, l.Streams)
	l.Client, l.App = cmp.Or(own.Client, l.Client), cmp.Or(own.App, l.App)
	return l
}

func (c *configFile) checkTLS(t *tlsConfig, bad func(path, format string, args ...any)) {
	a := t.ACME
	switch {
	case a != nil && (t.Cert != "" || t.Key != ""):
		bad("tls.acme", "stands beside cert and key: give a certificate, or have one made")
	case a == nil && (t.Cert == "") != (t.Key == ""):
		bad("tls", "cert and key belong together: give both")
	case a == nil && t.Cert == "":
		bad("tls", "give cert and key, or acme")
	}
	if a == nil {
		return
	}
	if !a.Agree {
		bad("tls.acme.agree", "write true once you have read the certificate authority's terms of service")
	}
	if a.Storage == "" {
		bad("tls.acme.storage", "name a folder for account, keys and certificates; it must outlive the program")
	}
	if a.Directory != "" {
		if u, err := url.Parse(a.Directory); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			bad("tls.acme.directory", "%q is no https address of an ACME directory", a.Directory)
		}
	}
	if a.Email != "" && (!strings.Contains(a.Email, "@") || strings.ContainsAny(a.Email, " <>,\r\n")) {
		bad("tls.acme.email", "%q is no mail address", a.Email)
	}
	if a.HTTP != "" {
		if err := checkAddr("", a.HTTP); err != nil {
			bad("tls.acme.http", "%q is no address to listen on: write ADDR:PORT, for instance :80", a.HTTP)
		}
	}
	if u, err := weburl.Parse(c.settings.Origin); err == nil && u.Port() != 443 {
		bad("tls.acme", "certificate authorities ask port 443, and the origin is on port %d: use cert and key", u.Port())
	}
}

// checkCollector judges the address of an OTLP collector.
func checkCollector(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("write the address of an OTLP collector, for instance http://127.0.0.1:4318")
	}
	if u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("no password or query belongs here: give headers in the variable OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

// sizes are the units of a number of bytes.
var sizes = []struct {
	unit string
	n    int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// parseSize reads a number of bytes: 500000, 512KiB, 16MiB.
func parseSize(s string) (int64, error) {
	digits, factor := strings.TrimSpace(s), int64(1)
	for _, u := range sizes {
		if rest, ok := strings.CutSuffix(digits, u.unit); ok {
			digits, factor = strings.TrimSpace(rest), u.n
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is no size: write bytes, or a number with KiB, MiB or GiB, for instance 16MiB", s)
	}
	return n * factor, nil
}

// parseSpan reads a duration above 0.
func parseSpan(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no duration: write a number with s, m or h, for instance 30s", s)
	}
	return d, nil
}
