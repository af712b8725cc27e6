package oauthtest_test

import (
	"testing"

	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
)

func TestExerciseStore(t *testing.T) {
	oauthtest.ExerciseStore(t, func(*testing.T) func() oauth.Store {
		s := oauth.NewMemoryStore()
		return func() oauth.Store { return s }
	})
}
