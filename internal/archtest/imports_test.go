package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the directory of the module, seen from this package.
var root = filepath.Join("..", "..")

// files calls fn for each file of the module that a build or a reader sees.
// Reading them here also tells the go command what the result of these tests
// depends on, which go list, run as a command, does not.
func files(t *testing.T, fn func(path string, data []byte), suffixes ...string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		for _, s := range suffixes {
			if strings.HasSuffix(name, s) {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				fn(path, data)
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportTable(t *testing.T) {
	files(t, func(string, []byte) {}, ".go", "go.mod")
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 10 {
		t.Fatalf("go list names %d packages only", len(pkgs))
	}
	for _, fault := range check(pkgs) {
		t.Error(fault)
	}
}

// TestTableCatches shows that each rule of the table can fail.
func TestTableCatches(t *testing.T) {
	one := func(name, imports, deps string) pkg {
		p := pkg{ImportPath: module + "/" + name}
		for _, s := range []struct {
			from string
			to   *[]string
		}{{imports, &p.Imports}, {deps, &p.Deps}} {
			for _, dep := range strings.Fields(s.from) {
				if level(dep) >= 0 || support.has(dep) {
					dep = module + "/" + dep
				}
				*s.to = append(*s.to, dep)
			}
		}
		return p
	}
	for _, c := range []struct {
		pkg  pkg
		want string // "" for none
	}{
		{one("discovery", "card catalog internal/fetch fmt", ""), ""},
		{one("card", "internal/strictjson encoding/json", "fmt internal/strictjson os"), ""},
		{one("cmd/crawler", "internal/crawlercmd", "publisher index"), ""},
		{one("examples/hello", "publisher", ""), ""},
		{one("internal/demo", "internal/fakenet publisher", ""), ""},
		{one("internal/fakenet", "publisher", ""), ""},
		{one("util", "", ""), "util is not in the import table: add it"},
		{one("examplesque", "", ""), "is not in the import table"},
		{one("index", "crawl", ""), "index (roles) imports crawl (engines a)"},
		{one("catalog", "card", ""), "catalog (leaves b) imports card (leaves b)"},
		{one("crawl", "internal/fakenet", ""), "only tests"},
		{one("internal/webtest", "crawl", ""), "support packages import"},
		{one("internal/webtest", "internal/fakenet", ""), "only tests"},
		{one("crawl", "", "oauth"), "crawl must not depend on oauth"},
		{one("crawl", "", "host/sqlite"), "crawl must not depend on host/sqlite"},
		{one("card", "", "net/http"), "card must not depend on net/http"},
		{one("catalog", "", "net"), "catalog must not depend on net"},
		{one("catalog", "", "database/sql"), "catalog must not depend on database/sql"},
		{one("card", "os", ""), "card must not import os"},
		{one("host", "", "index"), "host is of another role than index"},
		{one("index/api", "publisher", "publisher"), "index/api is of another role than publisher"},
		{one("internal/hostweb", "index", ""), "only through index/client"},
	} {
		got := strings.Join(check([]pkg{c.pkg}), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%+v:\ngot  %q\nwant %q", c.pkg, got, c.want)
		}
	}
}
