package weburl

import (
	"errors"
	"strings"
	"testing"
)

// normal holds addresses and their normal form; an empty form is a refusal for
// the reason beside it.
var normal = []struct {
	in, want string
	reason   Reason
}{
	{"https://apps.example.com/card", "https://apps.example.com/card", ""},
	{"HTTPS://Apps.EXAMPLE.com/Card", "https://apps.example.com/Card", ""},
	{"https://apps.example.com", "https://apps.example.com/", ""},
	{"https://apps.example.com?q=1", "https://apps.example.com/?q=1", ""},
	{"https://apps.example.com/?", "https://apps.example.com/?", ""},
	{"https://apps.example.com#@127.0.0.1/", "https://apps.example.com/", ""},
	{"https://apps.example.com/a?b#c?d", "https://apps.example.com/a?b", ""},
	{"https://apps.example.com:443/card", "https://apps.example.com/card", ""},
	{"https://apps.example.com:/card", "https://apps.example.com/card", ""},
	{"https://apps.example.com:8443/card", "https://apps.example.com:8443/card", ""},
	{"https://apps.example.com:08443/card", "https://apps.example.com:8443/card", ""},
	{"https://apps.example.com./card", "https://apps.example.com/card", ""},
	{"https://bücher.example.com/", "https://xn--bcher-kva.example.com/", ""},
	{"https://faß.example.com/", "https://xn--fa-hia.example.com/", ""},
	{"https://ＡＰＰＳ.example.com/", "https://apps.example.com/", ""},
	{"https://日历。example。com。/", "https://xn--jmr704b.example.com/", ""},
	{"https://apps.example.com/a/./b/../c/", "https://apps.example.com/a/c/", ""},
	{"https://apps.example.com/..", "https://apps.example.com/", ""},
	{"https://apps.example.com/a/b/..", "https://apps.example.com/a/", ""},
	{"https://apps.example.com/.well-known/x", "https://apps.example.com/.well-known/x", ""},
	{"https://apps.example.com/a/..//b", "https://apps.example.com//b", ""},
	{"https://apps.example.com/a?x/../y", "https://apps.example.com/a?x/../y", ""},
	{"https://apps.example.com/%7Ea%2fb%2E%2e/", "https://apps.example.com/%7Ea%2fb%2E%2e/", ""},
	{"https://apps.example.com/{a}|b^`\"<>\\[]", "https://apps.example.com/{a}|b^`\"<>\\[]", ""},
	{"https://apps.example.com/日?q=é", "https://apps.example.com/%E6%97%A5?q=%C3%A9", ""},
	{"https://localhost/", "https://localhost/", ""}, // publicnet's to refuse

	{"http://apps.example.com/", "", NotHTTPS},
	{"ftp://apps.example.com/", "", NotHTTPS},
	{"javascript:alert(1)", "", NotHTTPS},
	{"", "", BadInput},
	{"apps.example.com/card", "", BadInput},
	{"apps.example.com", "", BadInput},
	{"//apps.example.com/card", "", BadInput},
	{"https:apps.example.com/card", "", BadInput},
	{"https:/apps.example.com/card", "", BadInput},
	{"https:///card", "", BadInput},
	{"https://:443/card", "", BadInput},
	{"https://./card", "", BadInput},
	{" https://apps.example.com/", "", BadInput},
	{"https://apps.example.com/has space", "", BadInput},
	{"https://apps.example.com/#has space", "", BadInput},
	{"https://apps.example.com\r\nHost: x/", "", BadInput},
	{"https://apps.example.com/\t", "", BadInput},
	{"https://apps.example.com/\x7f", "", BadInput},
	{"https://apps.example.com/\xff", "", BadInput},
	{"https://apps.example.com/100%", "", BadInput},
	{"https://apps.example.com/?%zz", "", BadInput},
	{"https://user@apps.example.com/", "", BadInput},
	{"https://apps.example.com:pw@127.0.0.1/", "", BadInput},
	{"https://127.0.0.1/", "", BadInput},
	{"https://2130706433/", "", BadInput},
	{"https://0x7f.1/", "", BadInput},
	{"https://apps.0x7f/", "", BadInput},
	{"https://１２７.0.0.1/", "", BadInput},
	{"https://[::1]/", "", BadInput},
	{"https://[fe80::1%25eth0]/", "", BadInput},
	{"https://%31.example.com/", "", BadInput},
	{"https://exam_ple.com/", "", BadInput},
	{"https://a..example.com/", "", BadInput},
	{"https://.example.com/", "", BadInput},
	{"https://example.com../", "", BadInput},
	{"https://-a.example.com/", "", BadInput},
	{"https://a-.example.com/", "", BadInput},
	{"https://ab--c.example.com/", "", BadInput},
	{"https://xn--.example.com/", "", BadInput},
	{"https://xn--a.example.com/", "", BadInput},
	{"https://" + strings.Repeat("a", 64) + ".example.com/", "", BadInput},
	{"https://" + strings.Repeat("a.", 130) + "com/", "", BadInput},
	{"https://ex\\ample.com/", "", BadInput},
	{"https://ⅽ/℀.example.com:1:2/", "https://c/%E2%84%80.example.com:1:2/", ""},
	{"https://℀.example.com/", "", BadInput}, // maps to "a/c"
	{"https://apps.example.com:0/", "", BadInput},
	{"https://apps.example.com:65536/", "", BadInput},
	{"https://apps.example.com:-1/", "", BadInput},
	{"https://apps.example.com:+1/", "", BadInput},
	{"https://apps.example.com:80:80/", "", BadInput},
}

func TestParse(t *testing.T) {
	for _, tt := range normal {
		u, err := Parse(tt.in)
		if tt.want == "" {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Reason != tt.reason || e.Input != tt.in || e.Message == "" {
				t.Errorf("Parse(%q) = %q, %#v; want reason %s", tt.in, u, err, tt.reason)
			}
			if !u.IsZero() {
				t.Errorf("Parse(%q) failed and gave %q", tt.in, u)
			}
			continue
		}
		if err != nil || u.String() != tt.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", tt.in, u, err, tt.want)
			continue
		}
		checkNormal(t, u)
	}
}

// checkNormal asserts what holds for every URL.
func checkNormal(t *testing.T, u URL) {
	t.Helper()
	again, err := Parse(u.String())
	if err != nil || again != u {
		t.Errorf("Parse(%q) again = %#v, %v; want %#v", u, again, err, u)
	}
	if u.String() != u.Origin()+u.Target() || u.Origin() != "https://"+u.Authority() || !strings.HasPrefix(u.Target(), "/") {
		t.Errorf("parts of %q: %q %q %q", u, u.Origin(), u.Authority(), u.Target())
	}
	if host, ok := Domain(u.Host()); !ok || host != u.Host() {
		t.Errorf("Domain(%q) = %q, %v", u.Host(), host, ok)
	}
	if strings.ContainsAny(u.String(), " #\r\n\x00") || u.Port() < 1 || u.Port() > 65535 {
		t.Errorf("%q is no normal form", u)
	}
}

func TestTooLong(t *testing.T) {
	at := "https://example.com/" + strings.Repeat("a", MaxLen-len("https://example.com/"))
	if _, err := Parse(at); err != nil {
		t.Errorf("%d octets: %v", len(at), err)
	}
	if _, err := Parse(at + "a"); err == nil {
		t.Errorf("%d octets were accepted", len(at)+1)
	}
	// Encoding can make an address longer than it was written.
	if u, err := Parse("https://example.com/" + strings.Repeat("é", 3000)); err == nil {
		t.Errorf("a normal form of %d octets was accepted", len(u.String()))
	}
	if _, err := (URL{}).Resolve(at + "a"); err == nil {
		t.Error("Resolve accepted an address that is too long")
	}
}

func TestParts(t *testing.T) {
	u, err := Parse("https://Apps.example.com:8443/a?b=c#d")
	if err != nil {
		t.Fatal(err)
	}
	if u.Host() != "apps.example.com" || u.Port() != 8443 || u.Authority() != "apps.example.com:8443" ||
		u.Origin() != "https://apps.example.com:8443" || u.Target() != "/a?b=c" {
		t.Errorf("parts are %q %d %q %q %q", u.Host(), u.Port(), u.Authority(), u.Origin(), u.Target())
	}
	var zero URL
	if !zero.IsZero() || zero.Authority() != "" || zero.Origin() != "" || zero.Target() != "" || zero.String() != "" {
		t.Error("the zero URL has parts")
	}
}

func TestResolve(t *testing.T) {
	base, err := Parse("https://example.com/b/c/d;p?q")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ ref, want string }{
		// The shapes of RFC 3986 sections 5.4.1 and 5.4.2.
		{"g", "https://example.com/b/c/g"},
		{"./g", "https://example.com/b/c/g"},
		{"g/", "https://example.com/b/c/g/"},
		{"/g", "https://example.com/g"},
		{"//other.example.net", "https://other.example.net/"},
		{"?y", "https://example.com/b/c/d;p?y"},
		{"g?y", "https://example.com/b/c/g?y"},
		{"#s", "https://example.com/b/c/d;p?q"},
		{"g?y#s", "https://example.com/b/c/g?y"},
		{";x", "https://example.com/b/c/;x"},
		{"", "https://example.com/b/c/d;p?q"},
		{".", "https://example.com/b/c/"},
		{"..", "https://example.com/b/"},
		{"../../../g", "https://example.com/g"},
		{"/./g", "https://example.com/g"},
		{"g;x=1/../y", "https://example.com/b/c/y"},
		{"g?y/../x", "https://example.com/b/c/g?y/../x"},
		{"./1:2", "https://example.com/b/c/1:2"},
		{"1:2", "https://example.com/b/c/1:2"}, // a scheme begins with a letter
		// Repairs of what servers write.
		{"https://bücher.example.com/ä b", "https://xn--bcher-kva.example.com/%C3%A4%20b"},
		{" /g ", "https://example.com/g"},
		{"/\xff%", "https://example.com/%FF%25"},
		{"/a%2fb", "https://example.com/a%2fb"},
		// Refused.
		{"http://example.com/", ""},
		{"HTTPS:g", ""},
		{"ftp://example.com/", ""},
		{"mailto:a@example.com", ""},
		{"https://u:p@example.com/", ""},
		{"//127.0.0.1/", ""},
		{"/a\r\nb", ""},
		{"#a\nb", ""},
		{"https://exam ple.com/", ""},
		{"///g", ""},
		{"//a\xff.example.com/", ""},
		{"//\x92", ""},
	} {
		u, err := base.Resolve(tt.ref)
		if tt.want == "" {
			if e, ok := errors.AsType[*Error](err); !ok || e.Input != tt.ref {
				t.Errorf("Resolve(%q) = %q, %v; want an *Error", tt.ref, u, err)
			}
			continue
		}
		if err != nil || u.String() != tt.want {
			t.Errorf("Resolve(%q) = %q, %v; want %q", tt.ref, u, err, tt.want)
			continue
		}
		checkNormal(t, u)
	}
	if u, err := (URL{}).Resolve("/g"); err == nil {
		t.Errorf("a relative reference without base gave %q", u)
	}
}

// D5, documents R8, OB-116: one address has one form, and what differs in path
// or query differs.
func TestRule_DocumentsR8_NormalForm(t *testing.T) { testNormalForm(t) }
func TestRule_D5_NormalForm(t *testing.T)          { testNormalForm(t) }
func TestRule_OB116_NormalForm(t *testing.T)       { testNormalForm(t) }

func testNormalForm(t *testing.T) {
	card, err := Parse("https://apps.example.com/a/card")
	if err != nil {
		t.Fatal(err)
	}
	for _, same := range []string{
		"HTTPS://APPS.example.COM:443/a/card", "https://apps.example.com./a/card#x",
		"https://apps.example.com/x/../a/card", "https://ａpps.example.com/a/card",
	} {
		if u, err := Parse(same); err != nil || u != card {
			t.Errorf("%s: %q, %v; want %q", same, u, err, card)
		}
	}
	for _, other := range []string{
		"https://apps.example.com/a/card/", "https://apps.example.com/a/Card", "https://apps.example.com/a%2Fcard",
		"https://apps.example.com/a/card?", "https://apps.example.com:8443/a/card", "https://apps.example.com//a/card",
		"https://apps.example.com/%61/card",
	} {
		if u, err := Parse(other); err != nil || u == card {
			t.Errorf("%s: %q, %v; want another address", other, u, err)
		}
	}
	if lower, _ := Parse("https://apps.example.com/a%2fb"); lower.Target() != "/a%2fb" {
		t.Errorf("escape was rewritten: %s", lower)
	}
}

// OB-38: a bare word is a domain only if it is a host name and nothing else.
func TestRule_OB38_Domain(t *testing.T) {
	for in, want := range map[string]string{
		"Apps.Example.com": "apps.example.com", "example.com.": "example.com", "bücher.example": "xn--bcher-kva.example",
		"日历.example.com": "xn--jmr704b.example.com", "localhost": "localhost",
		"": "", ".": "", "example.com:443": "", "u@example.com": "", "example.com/": "", "example.com/a": "", "https://example.com": "",
		"127.0.0.1": "", "2130706433": "", "[::1]": "", "::1": "", "1.0x7f": "", "ex ample.com": "", "a..b.com": "", "example.com?x": "",
		"example.com#": "", "%65xample.com": "", "ex\xffample.com": "", "example.com\n": "", strings.Repeat("a", MaxLen+1): "",
	} {
		if host, ok := Domain(in); host != want || ok != (want != "") {
			t.Errorf("Domain(%q) = %q, %v; want %q", in, host, ok, want)
		}
	}
}

// The fast way past IDNA must judge as the profile does.
func TestPlainHostsJudgedAsByProfile(t *testing.T) {
	for _, host := range []string{
		"example.com", "a-b.c", "a--b.c", "ab--c.d", "a.b--c", "a", "1a.b", "a.b1", strings.Repeat("a", 63) + ".b",
		strings.Repeat("a", 64) + ".b", "a..b", ".a", "-a.b", "a-.b", strings.Repeat("a.", 126) + "b", strings.Repeat("a.", 127) + "b",
	} {
		want, wantErr := profile().ToASCII(host)
		got, fault := normalHost(host)
		if (wantErr == nil) != (fault == "") || wantErr == nil && got != want {
			t.Errorf("%q: %q, %q; the profile says %q, %v", host, got, fault, want, wantErr)
		}
	}
}

func TestErrorMessagesAreShortAndClean(t *testing.T) {
	_, err := Parse("https://example.com/\x1b[31m" + strings.Repeat("x", 4000))
	if err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("message: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range normal {
		f.Add(tt.in)
	}
	base, err := Parse("https://example.com/a/b?c")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := Parse(s)
		if err == nil {
			checkNormal(t, u)
			if r, err := base.Resolve(s); err != nil || r != u {
				t.Errorf("Resolve(%q) = %q, %v; Parse gave %q", s, r, err, u)
			}
		} else if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("Parse(%q): %T", s, err)
		}
		if u, err := base.Resolve(s); err == nil {
			checkNormal(t, u)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, tt := range []struct{ name, in string }{
		{"normal", "https://apps.example.com/mcp/calendar/server-card"},
		{"rewritten", "https://Apps.example.com:443/a/../b#c"},
		{"idna", "https://bücher.example.com/"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(tt.in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
