package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/zalando/go-keyring"

	"github.com/openbot-build/openbot-go/oauth"
)

// keyringEnv turns on the test with the keyring of this system, which may ask
// whoever sits before it.
const keyringEnv = "OPENBOT_TEST_KEYRING"

const testService = "openbot-host-test"

// In a process of its own: other tests replace the keyring by one in memory, and
// there is no way back.
func TestRealKeyring(t *testing.T) {
	if os.Getenv(keyringEnv) == "" {
		t.Skipf("%s is not set: the keyring of this system is left alone", keyringEnv)
	}
	path := filepath.Join(t.TempDir(), "host.db")
	cmd, out := startChild(t, "keyring", path)
	if !out.Scan() || out.Text() != "done" {
		t.Errorf("it says %q", out.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func useKeyring(path string) error {
	ctx, c, o := context.Background(), conn("c1", "ann"), &Options{MasterKey: Keyring(testService)}
	defer func() { _ = keyring.DeleteAll(testService) }()
	for range 3 {
		s, err := Open(ctx, path, o)
		if err != nil {
			return err
		}
		if err := s.Add(ctx, c); err != nil {
			return err
		}
		if _, err := advance(ctx, s, c); err != nil {
			return err
		}
		if err := s.Rotate(ctx); err != nil {
			return err
		}
		var x *oauth.Tokens
		if x, err = s.Tokens(ctx, c); err != nil {
			return err
		}
		if err := whole(x); err != nil {
			return err
		}
		if text, err := (ringSlots{inKeyring{testService}, s.id}).read(ctx, pending); err != nil || text != "" {
			return fmt.Errorf("the next key is left in the keyring: %w", err)
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	fmt.Println("done")
	return nil
}
