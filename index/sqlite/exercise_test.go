package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/indextest"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

func open(t testing.TB, limits index.Limits) index.Store {
	t.Helper()
	return openFile(t, filepath.Join(t.TempDir(), "index.db"), &sqlite.Options{Limits: limits})
}

func openFile(t testing.TB, path string, opts *sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestExercise(t *testing.T) { indextest.Exercise(t, open) }
