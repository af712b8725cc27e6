package sqlite

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/openbot-build/openbot-go/oauth"
)

func TestKeyFileIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	s := openAt(t, path, inFile(path))
	for _, name := range []string{path, path + "-wal", path + "-shm", path + ".key"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	before, err := os.ReadFile(path + ".key")
	if err != nil {
		t.Fatal(err)
	}
	all := fill(t, s, 1)
	readAll(t, openAt(t, path, inFile(path)), all)
	if after, err := os.ReadFile(path + ".key"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the key was written again: %v", err)
	}
	if left, _ := filepath.Glob(path + ".key?*"); left != nil {
		t.Errorf("%v are left over", left)
	}
}

// refused opens, wants an error with all texts, and that nothing was changed by
// it: the right key still opens the database.
func refused(t *testing.T, path string, o *Options, want error, texts ...string) {
	t.Helper()
	before := tree(t, filepath.Dir(path))
	s, err := Open(t.Context(), path, o)
	if err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	wantErr(t, err, want)
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not say %q: %v", text, err)
		}
	}
	for name, b := range tree(t, filepath.Dir(path)) {
		if b != before[name] && !strings.HasSuffix(name, "-shm") && !strings.HasSuffix(name, "-wal") {
			t.Errorf("%s was changed", name)
		}
	}
}

// tree gives the files of a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		if b, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil {
			all[e.Name()] = string(b)
		}
	}
	return all
}

// made is a database with something in it that nobody has open.
func made(t *testing.T, o func(path string) *Options) (path string, all []*oauth.Tokens) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "host.db")
	s, err := Open(t.Context(), path, o(path))
	if err != nil {
		t.Fatal(err)
	}
	all = fill(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, all
}

func TestWrongMasterKey(t *testing.T) {
	keyring.MockInit()
	path, all := made(t, inFile)
	other := filepath.Join(t.TempDir(), "other.key")
	refused(t, path, &Options{MasterKey: fixed(testKey)}, ErrMasterKey,
		"the environment variable TEST_KEY", "another one than the database is sealed with", "it was kept in the file "+path+".key", "nothing was changed")
	refused(t, path, &Options{MasterKey: KeyFile(other)}, ErrMasterKey, other, "is not there", "give that key back")
	refused(t, path, &Options{MasterKey: Keyring("x")}, ErrMasterKey, `service "x"`, "is not there")
	if _, err := os.Stat(other); err == nil {
		t.Error("a new key was made for a database that has one")
	}
	if err := os.Rename(path+".key", other); err != nil {
		t.Fatal(err)
	}
	refused(t, path, inFile(path), ErrMasterKey, "is not there")
	readAll(t, openAt(t, path, &Options{MasterKey: KeyFile(other)}), all)

	// The key of another database.
	second, _ := made(t, inFile)
	refused(t, path, &Options{MasterKey: KeyFile(second + ".key")}, ErrMasterKey, "another database's")
	third := filepath.Join(t.TempDir(), "host.db")
	_, err := Open(t.Context(), third, &Options{MasterKey: KeyFile(other)})
	wantErr(t, err, ErrMasterKey)
}

func TestBadKeyFiles(t *testing.T) {
	path, all := made(t, inFile)
	file := path + ".key"
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(good))
	secret := fields[2]
	for name, c := range map[string]struct{ content, want string }{
		"empty":     {"", "is empty"},
		"something": {"-----BEGIN PRIVATE KEY-----", "no master key"},
		"short":     {fields[0] + " " + fields[1] + " " + secret[:40], "damaged"},
		"no base64": {fields[0] + " " + fields[1] + " !" + secret, "damaged"},
		"other":     {fields[0] + " x" + fields[1] + " " + secret, "another database's"},
		"more":      {string(good) + " x", "no master key"},
		"huge":      {strings.Repeat("x", 1<<20), "no master key"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), path, inFile(path))
			if !errors.Is(err, ErrMasterKey) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret[:10]) {
				t.Errorf("%v", err)
			}
		})
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	readAll(t, openAt(t, path, inFile(path)), all)
}

func TestWidePermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes of files")
	}
	path, all := made(t, inFile)
	chmod := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o601, 0o777} {
		chmod(path+".key", mode)
		refused(t, path, inFile(path), ErrMasterKey, "may be used by other users", "chmod 600 "+path+".key")
	}
	chmod(path+".key", 0o400)
	chmod(path, 0o644)
	refused(t, path, inFile(path), ErrPermission, "chmod 600 "+path)
	chmod(path, 0o600)
	readAll(t, openAt(t, path, inFile(path)), all)
}

func TestKeyFileIsNoLink(t *testing.T) {
	path, _ := made(t, inFile)
	target := path + ".target"
	if err := os.Rename(path+".key", target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path+".key"); err != nil {
		t.Skip("no symbolic links here")
	}
	refused(t, path, inFile(path), ErrMasterKey, "symbolic link")

	// Nor is a key written through one, wherever it leads.
	fresh := filepath.Join(t.TempDir(), "host.db")
	aim := filepath.Join(t.TempDir(), "aim")
	if err := os.Symlink(aim, fresh+".key"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), fresh, inFile(fresh))
	wantErr(t, err, ErrMasterKey)
	if _, err := os.Stat(aim); err == nil {
		t.Error("a key was written through a link")
	}
	if err := os.Remove(fresh + ".key"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(fresh+".key", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), fresh, inFile(fresh))
	wantErr(t, err, ErrMasterKey)
}

func TestEnvironment(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))
	for _, c := range []struct{ value, want string }{
		{"", "not set"},
		{"  ", "not set"},
		{"hello!", "not base64"},
		{good[:40], "30 bytes, it must have 32"},
		{good + "," + good[:20], "key 2 has"},
		{good + ",", "key 2 has 0 bytes"},
		{base64.StdEncoding.EncodeToString(make([]byte, 32)), "all zeros"},
	} {
		path := filepath.Join(t.TempDir(), "host.db")
		_, err := Open(t.Context(), path, &Options{MasterKey: Environment("X", func(name string) (string, bool) { return c.value, name == "X" })})
		if !errors.Is(err, ErrMasterKey) || !strings.Contains(err.Error(), "the environment variable X") ||
			!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), good[:10]) {
			t.Errorf("%q: %v", c.value, err)
		}
	}
	path := filepath.Join(t.TempDir(), "host.db")
	all := fill(t, openAt(t, path, &Options{MasterKey: Environment("X", func(string) (string, bool) { return " " + good + "\n", true })}), 1)
	hook := KeyFunc("the vault", func(context.Context) ([][]byte, error) { return [][]byte{bytes.Repeat([]byte{9}, 32)}, nil })
	readAll(t, openAt(t, path, &Options{MasterKey: hook}), all)
	if hook.String() != "the vault" || fmt.Sprint(hook) != "the vault" {
		t.Error(hook)
	}
}

func TestKeyFunc(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	for _, f := range []func(context.Context) ([][]byte, error){
		func(context.Context) ([][]byte, error) { return nil, errPlace },
		func(context.Context) ([][]byte, error) { return nil, nil },
	} {
		_, err := Open(t.Context(), path, &Options{MasterKey: KeyFunc("the vault", f)})
		if !errors.Is(err, ErrMasterKey) || !strings.Contains(err.Error(), "the vault") {
			t.Error(err)
		}
	}
}

func TestDefaultMasterKey(t *testing.T) {
	t.Run("keyring", func(t *testing.T) {
		keyring.MockInit()
		var log logs
		path, all := made(t, func(path string) *Options {
			return &Options{MasterKey: DefaultMasterKey(path + ".key"), Log: log.logger()}
		})
		if !log.contains("the keyring of") || log.contains(".key") {
			t.Errorf("where the key is: %s", log.String())
		}
		if _, err := os.Stat(path + ".key"); err == nil {
			t.Error("a file was made where there is a keyring")
		}
		readAll(t, openAt(t, path, &Options{}), all)
		keyring.MockInitWithError(errors.New("no keyring today"))
		refused(t, path, nil, ErrMasterKey, "openbot-host", path+".key", "no keyring today")
		if _, err := os.Stat(path + ".key"); err == nil {
			t.Error("a file was made for a database whose key is in the keyring")
		}
	})
	t.Run("file", func(t *testing.T) {
		keyring.MockInitWithError(keyring.ErrUnsupportedPlatform)
		var log logs
		path, all := made(t, func(path string) *Options {
			return &Options{MasterKey: DefaultMasterKey(path + ".key"), Log: log.logger()}
		})
		if !log.contains("the file "+path+".key") || log.contains("keyring") {
			t.Errorf("where the key is: %s", log.String())
		}
		readAll(t, openAt(t, path, &Options{MasterKey: KeyFile(path + ".key")}), all)
		keyring.MockInit() // there is one now; the database goes on with its file
		s := openAt(t, path, &Options{MasterKey: DefaultMasterKey(path + ".key")})
		readAll(t, s, all)
		if err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		readAll(t, openAt(t, path, &Options{MasterKey: KeyFile(path + ".key")}), all)
	})
	t.Run("keyring that says no", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "host.db")
		for _, no := range []error{errors.New("the prompt was dismissed"), errors.New("exit status 128"), keyring.ErrSetDataTooBig} {
			keyring.MockInitWithError(no)
			_, err := Open(t.Context(), path, nil)
			wantErr(t, err, ErrMasterKey)
			wantErr(t, err, no)
			if _, err := os.Stat(path + ".key"); err == nil {
				t.Fatal("a file was made past the keyring")
			}
		}
		keyring.MockInit()
		openAt(t, path, &Options{}) // when its user has said yes
	})
	t.Run("keyring that waits for its user", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key")
		ctx, cancel := context.WithCancel(t.Context())
		m := either{asking{Keyring("x").source, cancel}, KeyFile(path).source}
		_, err := m.first(ctx, "id")
		wantErr(t, err, context.Canceled)
		if _, err := os.Stat(path); err == nil {
			t.Error("a file was made while the keyring waits")
		}
		f := fileSlots{path}
		_, err = f.read(ctx, inUse)
		wantErr(t, err, context.Canceled)
		wantErr(t, f.write(ctx, inUse, "x"), context.Canceled)
		wantErr(t, f.move(ctx), context.Canceled)
	})
	t.Run("neither", func(t *testing.T) {
		keyring.MockInitWithError(keyring.ErrUnsupportedPlatform)
		path := filepath.Join(t.TempDir(), "host.db")
		_, err := Open(t.Context(), path, &Options{MasterKey: DefaultMasterKey(filepath.Join(t.TempDir(), "missing", "key"))})
		wantErr(t, err, ErrMasterKey)
		wantErr(t, err, os.ErrNotExist)
	})
}

// asking is a keyring that asks its user, who does something else meanwhile.
type asking struct {
	source
	later func()
}

func (a asking) first(ctx context.Context, _ string) (key, error) {
	a.later()
	return key{}, waiting(ctx, func() error { return nil })
}

func TestNoKeyring(t *testing.T) {
	_, errNoBus := net.Dial("unix", filepath.Join(t.TempDir(), "bus"))
	_, errNoProgram := exec.LookPath("no-such-program-" + randomID())
	for _, err := range []error{
		errNoBus, errNoProgram, keyring.ErrUnsupportedPlatform,
		errors.New("The name org.freedesktop.secrets was not provided by any .service files"),
	} {
		if !noKeyring(fmt.Errorf("ask the keyring: %w", err)) {
			t.Errorf("not known: %v", err)
		}
	}
	for _, err := range []error{
		errors.New("failed to unlock correct collection '/org/freedesktop/secrets/collection/login'"),
		errors.New("Access denied"), os.ErrPermission, os.ErrNotExist, keyring.ErrNotFound, context.Canceled,
	} {
		if noKeyring(fmt.Errorf("ask the keyring: %w", err)) {
			t.Errorf("passed over: %v", err)
		}
	}
}

// A keyring that waits for its user does not hold up for ever.
func TestWaiting(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	block := make(chan struct{})
	defer close(block)
	wantErr(t, waiting(ctx, func() error { <-block; return nil }), context.DeadlineExceeded)
	wantErr(t, waiting(ctx, func() error { t.Error("it was called"); return nil }), context.DeadlineExceeded)
}

// lossy is a keyring that keeps something else than it was given.
type lossy struct{ ringSlots }

func (l lossy) write(ctx context.Context, s slot, text string) error {
	return l.ringSlots.write(ctx, s, text[:len(text)-4])
}

func TestKeyThatIsNotReadBack(t *testing.T) {
	keyring.MockInit()
	k := kept{lossy{ringSlots{inKeyring{"x"}, "id"}}}
	if _, err := k.first(t.Context(), "id"); err == nil {
		t.Error("a key is used that is lost at the next start")
	}
}
