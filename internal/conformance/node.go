package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// manifests name each npm package with its version and, in the lock file, the
// digest of every file that is fetched.
//
//go:embed node/package.json node/package-lock.json
var manifests embed.FS

// errNoNode is wrapped when the npm packages cannot be had on this machine.
var errNoNode = errors.New("no npm packages")

// box is the installed npm packages and the Node that runs them.
type box struct {
	Dir  string // has node_modules
	Node string // program
}

// install gives the npm packages of the lock file, in a directory of the user's
// cache that is named after it. They are fetched once; a second process that
// comes at the same time fetches for itself and the first to end wins. Scripts
// of packages are not run.
func install(ctx context.Context) (*box, error) {
	lock, err := manifests.ReadFile("node/package-lock.json")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(lock)
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	all := filepath.Join(cache, "openbot-go", "node")
	dir := filepath.Join(all, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return newBox(ctx, dir)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return nil, fmt.Errorf("%w: no npm on this machine; apt-get install npm brings one", errNoNode)
	}
	if err := os.MkdirAll(all, 0o750); err != nil {
		return nil, err
	}
	fresh, err := os.MkdirTemp(all, "new-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(fresh) }() // what was renamed is not there
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := manifests.ReadFile("node/" + name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(fresh, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	fetch := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error") // #nosec G204 -- npm of this machine
	fetch.Dir = fresh
	if out, err := fetch.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: npm ci: %w\n%s", errNoNode, err, out)
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, gone := os.Stat(dir); gone != nil {
			return nil, err
		}
	}
	return newBox(ctx, dir)
}

// leastNode is the oldest Node that the packages run on.
const leastNode = 22

// newBox finds Node: the one that npm brought, or on other systems the user's.
func newBox(ctx context.Context, dir string) (*box, error) {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	b := &box{Dir: dir, Node: filepath.Join(dir, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")}
	if _, err := os.Stat(b.Node); err == nil {
		return b, nil
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("%w: no Node on this machine", errNoNode)
	}
	b.Node = node
	out, err := exec.CommandContext(ctx, node, "--version").Output() // #nosec G204 -- node of this machine
	if err != nil {
		return nil, fmt.Errorf("%w: %s --version: %w", errNoNode, node, err)
	}
	var major int
	if _, err := fmt.Sscanf(string(out), "v%d.", &major); err != nil || major < leastNode {
		return nil, fmt.Errorf("%w: Node %s is older than %d", errNoNode, strings.TrimSpace(string(out)), leastNode)
	}
	return b, nil
}

// module is a file of an installed package.
func (b *box) module(pkg, file string) string {
	return filepath.Join(b.Dir, "node_modules", filepath.FromSlash(pkg), filepath.FromSlash(file))
}

// command runs a program for Node. Its environment has no more of this
// process than a program needs, and the Node of the box first on its path.
func (b *box) command(ctx context.Context, home string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.Node, args...) // #nosec G204 -- installed by the lock file
	cmd.Dir = b.Dir                                  // where "node -e" looks for packages
	cmd.WaitDelay = 10 * time.Second                 // its children may keep its output open
	cmd.Env = []string{
		"PATH=" + filepath.Dir(b.Node) + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"HOME=" + home, "NO_COLOR=1",
	}
	return cmd
}
