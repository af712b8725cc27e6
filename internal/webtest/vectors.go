// Package webtest holds what tests of several packages share: shared test
// vectors and, for HTTP surfaces, request and expect scripts.
package webtest

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Vectors decodes every copy of the named vector file that this run can see,
// each into a value of type T. Where it looks, and when the test fails, is
// told at [VectorFiles].
func Vectors[T any](t testing.TB, name string) []T {
	t.Helper()
	files := VectorFiles(t, name)
	out := make([]T, len(files))
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &out[i]); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return out
}

// VectorFiles gives the vector files that match a pattern of path.Match, such
// as "robots-vectors.json" or "server-card-examples/*.json".
//
// The first source is the package's own testdata/vectors directory. The second
// is the directory in OPENBOT_VECTORS, which may be relative to the module's
// root, or, when that is not set, shared/vectors beside the checkout if it
// exists. Other files of the same format can so be run with
// OPENBOT_VECTORS=DIR go test -run Vectors ./...
//
// A directory in OPENBOT_VECTORS need not hold all files: where one is missing
// the test says so and runs the package's own cases. The test fails when that
// directory does not exist, and when no file is found at all: a vector test
// without vectors would prove nothing.
func VectorFiles(t testing.TB, pattern string) []string {
	t.Helper()
	files := matches(t, filepath.Join("testdata", "vectors"), pattern)
	other := os.Getenv("OPENBOT_VECTORS")
	dir := other
	switch {
	case other == "":
		dir = filepath.Join(moduleRoot(t), "..", "shared", "vectors")
	case !filepath.IsAbs(other):
		dir = filepath.Join(moduleRoot(t), other)
	}
	if other != "" && !exists(dir) {
		t.Fatalf("OPENBOT_VECTORS is %s, but there is no such directory", dir)
	}
	more := matches(t, dir, pattern)
	if other != "" && len(more) == 0 {
		t.Logf("OPENBOT_VECTORS has no %s: only the package's own cases run", pattern)
	}
	files = append(files, more...)
	if len(files) == 0 {
		t.Fatalf("no vectors: neither testdata/vectors/%[1]s nor a directory with %[1]s (set OPENBOT_VECTORS)", pattern)
	}
	return files
}

// matches gives the files in dir that match the pattern; dir itself is no
// pattern, whatever its name holds.
func matches(t testing.TB, dir, pattern string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), pattern)
	if err != nil {
		t.Fatalf("vectors %s: %v", pattern, err)
	}
	for i, name := range names {
		names[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return names
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// moduleRoot is the directory that holds go.mod, found from the test's own
// directory upwards.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if exists(filepath.Join(dir, "go.mod")) {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = parent
	}
}
