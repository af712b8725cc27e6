package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
)

// Each handle is a Store of its own on one file, as in several processes.
func TestExercise(t *testing.T) {
	oauthtest.ExerciseStore(t, func(t *testing.T) func() oauth.Store {
		path := filepath.Join(t.TempDir(), "host.db")
		return func() oauth.Store { return openAt(t, path, nil) }
	})
}
