package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func files(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

func TestReport(t *testing.T) {
	var out strings.Builder
	j, err := read(files(
		"docs/rules/a.md", "# A\n\nText.\n\n- **OB-114** Gone is gone (RFC 1).\n- **OB-T19** Evidence (protocol).\n- **documents K1** Opaque (D2).\n- **D16** Robots (ours).\n",
		"index/a_test.go", "package index\nfunc TestRule_OB114_Gone(t *testing.T) {}\nfunc TestRule_OB114_Again(t *testing.T) {}\nfunc (x y) TestRule_D16(t *testing.T) {}\nfunc TestOther(t *testing.T) {}\n",
		"b_test.go", "package b\nfunc TestRule_DocumentsK1(t *testing.T) {}\nfunc TestRule_OBT19_X(t *testing.T) {}\nfunc TestRule_ZZ1_X(t *testing.T) {}\n",
		"testdata/c_test.go", "package c\nfunc TestRule_D16_C(t *testing.T) {}\n",
		"d.go", "package d\nfunc TestRule_D16_D() {}\n",
	))
	if err != nil {
		t.Fatal(err)
	}
	j.report(&out)
	want := `OB-114         index.TestRule_OB114_Gone
               index.TestRule_OB114_Again
OB-T19         ..TestRule_OBT19_X
documents K1   ..TestRule_DocumentsK1

Rules without a test:
D16            Robots (ours).

Rule tests whose number is not in docs/rules:
..TestRule_ZZ1_X

rules: 4, with a test: 3, measured: 0, without: 1; rule tests: 5, without a rule: 1
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestComplete(t *testing.T) {
	j, err := read(files("docs/rules/a.md", "- **FO-12** Links (x).\n", "p/a_test.go", "package p\nfunc TestRule_FO12(t *testing.T) {}\n"))
	if err != nil || len(j.open) > 0 || len(j.strangers) > 0 {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestFaults(t *testing.T) {
	for want, fsys := range map[string]fstest.MapFS{
		"a.md:2: OB-1 stands at docs/rules/a.md:1 already": files("docs/rules/a.md", "- **OB-1** A (x).\n- **OB-1** B (x).\n"),
		"a.md:1: not a rule": files("docs/rules/a.md", "- **OB-1**\n"),
		"no rules in docs":   files("docs/rules/a.md", "# Nothing\n"),
		"expected":           files("docs/rules/a.md", "- **OB-1** A (x).\n", "a_test.go", "no go"),
	} {
		if _, err := read(fsys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestKey: every form of number that the book uses.
func TestKey(t *testing.T) {
	for number, want := range map[string]string{"OB-114": "OB114", "OB-T19": "OBT19", "documents K1": "DocumentsK1", "crawler G3": "CrawlerG3", "IX-43": "IX43", "FO-12": "FO12", "D16": "D16"} {
		if got := key(number); got != want {
			t.Errorf("key(%q) = %q, want %q", number, got, want)
		}
	}
}
