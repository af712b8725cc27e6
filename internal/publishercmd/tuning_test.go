package publishercmd

import (
	"strings"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{"1": 1, "512KiB": 512 << 10, "16 MiB": 16 << 20, "1GiB": 1 << 30, "": 0, "0": 0, "-1": 0, "1.5MiB": 0, "1MB": 0, "9223372036854775807KiB": 0, "MiB": 0} {
		got, err := parseSize(s)
		if (err == nil) != (want != 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	if d, err := parseSpan("90s"); err != nil || d != 90*time.Second {
		t.Errorf("%v, %v", d, err)
	}
	for _, s := range []string{"", "5", "0s", "-1s", "soon"} {
		if _, err := parseSpan(s); err == nil {
			t.Errorf("%q passed", s)
		}
	}
}

// Every fault of the settings of the program is found at its line, with what to
// write.
func TestTuningFaults(t *testing.T) {
	code, out := checkText(t, echoConfig+`tls:
  cert: a.pem
  acme: {email: nobody, directory: "http://acme.example.com/dir", http: eighty}
limits:
  body: 65MiB
  streams: -1
  client: {rate: -1, burst: 5, concurrent: -1}
  app: {burst: 5}
telemetry:
  otlp: collector
  sample: 2
`)
	for _, want := range []string{
		"c.yaml:12: tls.acme: stands beside cert and key", "tls.acme.agree: write true", "tls.acme.storage: name a folder", `tls.acme.directory: "http://acme`,
		`tls.acme.email: "nobody"`, `tls.acme.http: "eighty"`, "limits.body: a request is held in memory: write 64MiB", "limits.streams: ", "limits.client.rate: ",
		"limits.client.concurrent: ", "limits.app.burst: ", "telemetry.otlp: write the address", "telemetry.sample: write a share",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if code != exitFailed || t.Failed() {
		t.Errorf("exit %d\n%s", code, out)
	}
}
