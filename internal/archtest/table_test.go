package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// module is the path that all packages of the table stand under.
const module = "github.com/openbot-build/openbot-go"

// table is the house from top to bottom. A package imports lines below its own,
// never its own line. A name that ends in "/..." stands for all packages
// below it.
var table = []line{
	{"mains", "cmd/publisher cmd/crawler cmd/host internal/demo internal/bench examples/... internal/archtest/rulebook internal/archtest/testlog internal/conformance"},
	{"commands", "internal/publishercmd internal/crawlercmd internal/hostcmd"},
	{"engines b", "publisher/gateway publisher/check index/api internal/hostweb"},
	{"engines a", "crawl index/search index/sqlite index/postgres index/client host/sqlite"},
	{"roles", "publisher index host"},
	{"protocol", "oauth oauth/cimd view guibridge discovery robots"},
	{"fetching", "internal/fetch internal/mcpgate internal/accesstoken"},
	{"leaves b", "card catalog publicnet"},
	{"leaves a", "internal/strictjson internal/weburl"},
}

// support packages help tests. They import the lines from "roles" down and are
// imported only by tests and by the packages of supportUsers.
var (
	support      = line{"support", "index/indextest oauth/oauthtest internal/fakenet internal/webtest internal/archtest"}
	supportUsers = []string{"internal/demo", "internal/bench", "internal/conformance"}
	supportFloor = "roles"
)

// roles never reach each other, not even through other packages. A role is a
// package and all that lies under it.
var roles = []string{"publisher", "index", "host"}

// never is what a package must not have among all its dependencies; a name
// ending in "/..." includes the package itself and all below it.
var never = map[string][]string{
	"crawl":   {"host/...", "oauth/..."},           // works without user data
	"card":    {"net", "net/http", "database/sql"}, // no I/O
	"catalog": {"net", "net/http", "database/sql"},
}

// neverDirect is what a package must not import itself.
var neverDirect = map[string][]string{
	"card":    {"os"},
	"catalog": {"os"},
}

type line struct{ name, packages string }

func (l line) has(pkg string) bool {
	return slices.ContainsFunc(strings.Fields(l.packages), func(p string) bool { return covers(p, pkg) })
}

// covers reports whether a name of the table stands for a package.
func covers(name, pkg string) bool {
	root, tree := strings.CutSuffix(name, "/...")
	return pkg == root || tree && strings.HasPrefix(pkg, root+"/")
}

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// short is a path within the module, or the path as it is.
func short(path string) string { return strings.TrimPrefix(path, module+"/") }

func level(pkg string) int {
	return slices.IndexFunc(table, func(l line) bool { return l.has(pkg) })
}

// check gives one sentence for each breach of the table.
func check(pkgs []pkg) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, p := range pkgs {
		name := short(p.ImportPath)
		at := level(name)
		helper := support.has(name)
		if at < 0 && !helper {
			fault("%s is not in the import table: add it to the line it belongs to in internal/archtest/table_test.go, and to docs/design.md, if it owns something that no present package owns", name)
			continue
		}
		for _, path := range p.Imports {
			dep, ours := strings.CutPrefix(path, module+"/")
			if !ours {
				continue
			}
			to := level(dep)
			switch {
			case support.has(dep):
				if !slices.Contains(supportUsers, name) {
					fault("%s imports %s, which only tests, %s may import", name, dep, strings.Join(supportUsers, " and "))
				}
			case to < 0: // reported for the package itself
			case helper:
				if table[to].name != supportFloor && to < slices.IndexFunc(table, func(l line) bool { return l.name == supportFloor }) {
					fault("%s imports %s: support packages import %q and below", name, dep, supportFloor)
				}
			case to <= at:
				fault("%s (%s) imports %s (%s): a package imports lower lines only", name, table[at].name, dep, table[to].name)
			}
		}
		faults = append(faults, forbidden(name, p)...)
	}
	return faults
}

// forbidden checks the rules that a level alone does not express.
func forbidden(name string, p pkg) []string {
	var faults []string
	check := func(paths, banned []string, how string) {
		for _, path := range paths {
			for _, b := range banned {
				if covers(b, short(path)) {
					faults = append(faults, fmt.Sprintf("%s %s %s", name, how, short(path)))
				}
			}
		}
	}
	check(p.Deps, never[name], "must not depend on")
	check(p.Imports, neverDirect[name], "must not import")
	for _, role := range roles {
		if !covers(role+"/...", name) {
			continue
		}
		for _, other := range roles {
			if other != role {
				check(p.Deps, []string{other + "/..."}, "is of another role than")
			}
		}
	}
	if name == "internal/hostweb" {
		for _, path := range p.Imports {
			if dep := short(path); covers("index/...", dep) && dep != "index/client" {
				faults = append(faults, fmt.Sprintf("%s imports %s: it knows the index only through index/client", name, dep))
			}
		}
	}
	return faults
}
