// Package webtest holds what tests of several packages share: shared test
// vectors and, for HTTP surfaces, request and expect scripts.
package webtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Vectors decodes every copy of the named vector file that this run can see,
// each into a value of type T.
//
// The first source is the package's own testdata/vectors directory. The second
// is the directory in OPENBOT_VECTORS or, when that is not set, shared/vectors
// beside the checkout if it exists. Other files of the same format can so be
// run with OPENBOT_VECTORS=DIR go test -run Vectors ./...
//
// The test fails when no file is found, or when OPENBOT_VECTORS is set and
// does not hold the file: a vector test without vectors would prove nothing.
func Vectors[T any](t testing.TB, name string) []T {
	t.Helper()
	var files []string
	if own := filepath.Join("testdata", "vectors", name); exists(own) {
		files = append(files, own)
	}
	if dir := os.Getenv("OPENBOT_VECTORS"); dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(moduleRoot(t), dir)
		}
		file := filepath.Join(dir, name)
		if !exists(file) {
			t.Fatalf("OPENBOT_VECTORS is %s, but there is no %s", dir, file)
		}
		files = append(files, file)
	} else if file := filepath.Join(moduleRoot(t), "..", "shared", "vectors", name); exists(file) {
		files = append(files, file)
	}
	if len(files) == 0 {
		t.Fatalf("no vectors: neither testdata/vectors/%[1]s nor a directory with %[1]s (set OPENBOT_VECTORS)", name)
	}
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
