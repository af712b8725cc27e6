package webtest_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/internal/webtest"
)

// stopping is a recorder whose Fatal ends the goroutine, as a real one does.
type stopping struct{ recorder }

func (s *stopping) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *stopping) Fatal(args ...any) { s.Fatalf("%v", args...) }

func TestSourcesOfCases(t *testing.T) {
	type vector struct{ N int }
	read := func(name string) (got []vector, failure string) {
		var s stopping
		done := make(chan struct{})
		go func() {
			defer close(done)
			got = webtest.Vectors[vector](&s, name)
		}()
		<-done
		return got, strings.Join(s.failures, "\n")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("demo.json", `{"n": 2}`)
	write("bad.json", `{`)

	t.Setenv("OPENBOT_VECTORS", "")
	if got, failure := read("demo.json"); failure != "" || len(got) != 1 || got[0].N != 1 {
		t.Errorf("own file alone: %v, %q", got, failure)
	}
	if _, failure := read("none.json"); !strings.Contains(failure, "no vectors") {
		t.Errorf("no file: %q", failure)
	}
	t.Setenv("OPENBOT_VECTORS", dir)
	if got, failure := read("demo.json"); failure != "" || len(got) != 2 || got[1].N != 2 {
		t.Errorf("own file and another: %v, %q", got, failure)
	}
	if _, failure := read("none.json"); !strings.Contains(failure, "no vectors") {
		t.Errorf("no file anywhere: %q", failure)
	}
	if _, failure := read("bad.json"); !strings.Contains(failure, "unexpected end") {
		t.Errorf("a broken file: %q", failure)
	}
	t.Setenv("OPENBOT_VECTORS", "internal/webtest/testdata/vectors") // from the module's root
	if got, failure := read("demo.json"); failure != "" || len(got) != 2 {
		t.Errorf("a relative directory: %v, %q", got, failure)
	}

	t.Setenv("OPENBOT_VECTORS", t.TempDir())
	if got, failure := read("demo.json"); failure != "" || len(got) != 1 || got[0].N != 1 {
		t.Errorf("a directory without the file: %v, %q", got, failure)
	}
	t.Setenv("OPENBOT_VECTORS", filepath.Join(dir, "none"))
	if _, failure := read("demo.json"); !strings.Contains(failure, "no such directory") {
		t.Errorf("no directory: %q", failure)
	}

	other := filepath.Join(t.TempDir(), "a[b") // a directory's name is no pattern
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"demo.json", "demo-2.json"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte(`{}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("OPENBOT_VECTORS", other)
	if got := webtest.VectorFiles(t, "dem*.json"); len(got) != 3 || got[1] != filepath.Join(other, "demo-2.json") {
		t.Errorf("files of a pattern: %q", got)
	}
}
