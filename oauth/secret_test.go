package oauth

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretsAreNotPrinted(t *testing.T) {
	const text = "canary"
	s := Secret(text)
	in := struct {
		A Secret
		B []Secret
		C map[string]Secret
		D *Secret
		E any
	}{s, []Secret{s}, map[string]Secret{"x": s}, &s, s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10s", "%z", "%T"} {
		fmt.Fprintf(&out, verb+verb+"\n", s, in)
	}
	fmt.Fprintln(&out, s, fmt.Errorf("x: %v", s), s.String(), s.GoString())
	for _, v := range []any{s, in} {
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(j)
	}
	x, err := xml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(x)
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", "secret", s, "in", in, "p", &s)
	}
	for _, form := range []string{text, fmt.Sprintf("%x", text), fmt.Sprintf("%X", text), strings.ToUpper(text)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("printed as %q in\n%s", form, out.String())
		}
	}
	if s.Reveal() != text {
		t.Error("the secret is gone")
	}
	var read struct{ A Secret }
	if err := json.Unmarshal([]byte(`{"A":"canary"}`), &read); err != nil || read.A != s {
		t.Errorf("not read: %v", err)
	}
}
