package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/zalando/go-keyring"
)

// Keyring is the keyring of the operating system: Keychain, Credential Manager or
// the Secret Service. The key lies under service, with the database's id as the
// account. The keyring may ask its user to unlock it; the context of the call
// ends the wait.
func Keyring(service string) *MasterKey { return &MasterKey{inKeyring{service}} }

// inKeyring knows the account of a slot only with the id of the database.
type inKeyring struct{ service string }

func (r inKeyring) String() string {
	return fmt.Sprintf("the keyring of the operating system (service %q)", r.service)
}

func (r inKeyring) of(store string) kept { return kept{ringSlots{r, store}} }

func (r inKeyring) load(ctx context.Context, store string) ([]key, error) {
	return r.of(store).load(ctx, store)
}

func (r inKeyring) first(ctx context.Context, store string) (key, error) {
	return r.of(store).first(ctx, store)
}

func (r inKeyring) next(ctx context.Context, store string, current key) (key, error) {
	return r.of(store).next(ctx, store, current)
}

func (r inKeyring) promote(ctx context.Context, store string, k key) error {
	return r.of(store).promote(ctx, store, k)
}

type ringSlots struct {
	inKeyring
	store string
}

func (r ringSlots) account(s slot) string {
	if s == pending {
		return r.store + ".next"
	}
	return r.store
}

func (r ringSlots) read(ctx context.Context, s slot) (text string, err error) {
	err = waiting(ctx, func() error {
		got, err := keyring.Get(r.service, r.account(s))
		if errors.Is(err, keyring.ErrNotFound) {
			return nil
		}
		text = got
		return err
	})
	if err != nil {
		return "", fmt.Errorf("ask the keyring: %w", err)
	}
	return text, nil
}

func (r ringSlots) write(ctx context.Context, s slot, text string) error {
	err := waiting(ctx, func() error { return keyring.Set(r.service, r.account(s), text) })
	if err != nil {
		return fmt.Errorf("write to the keyring: %w", err)
	}
	return nil
}

func (r ringSlots) move(ctx context.Context) error {
	text, err := r.read(ctx, pending)
	if err != nil || text == "" {
		return err
	}
	if err := r.write(ctx, inUse, text); err != nil {
		return err
	}
	back, err := r.read(ctx, inUse)
	if err != nil {
		return err
	}
	if back != text {
		return errors.New("a key that was written to the keyring is not what is read back")
	}
	err = waiting(ctx, func() error { return keyring.Delete(r.service, r.account(pending)) })
	if err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return fmt.Errorf("delete from the keyring: %w", err)
	}
	return nil
}

// noKeyring reports whether an error of the keyring says that this system has
// none. What is not known counts as a keyring that does not answer now.
func noKeyring(err error) bool {
	if errors.Is(err, keyring.ErrUnsupportedPlatform) || errors.Is(err, exec.ErrNotFound) {
		return true // no program that knows of one
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) // no message bus
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok && runtime.GOOS != "darwin" {
		return true // no desktop to start a message bus for; on macOS it is the keychain's no
	}
	// A message bus without a keyring on it. Its errors have a type that the
	// keyring package does not export.
	text := err.Error()
	for _, part := range []string{
		"couldn't determine address of session bus",
		"was not provided by any .service files", // dbus-daemon
		"The name is not activatable",            // dbus-broker
		"org.freedesktop.DBus.Error.ServiceUnknown",
	} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// waiting ends with ctx, also while the keyring waits for its user. Then f is left
// alone; it ends when the user has answered.
func waiting(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
