package publishercmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/publisher"
	"github.com/openbot-build/openbot-go/publisher/check"
)

type buildCommand struct {
	Config string `required:"" placeholder:"FILE" help:"Configuration file."`
	Out    string `required:"" placeholder:"DIR" help:"Folder to write. It may be one that build wrote before."`
	Force  bool   `help:"Write into a folder that holds other files. They stay, unless build has a file of the same name."`
}

// Help is the manual's page on build.
func (*buildCommand) Help() string {
	return `Every app must have its MCP endpoint elsewhere (endpoint: in the configuration): files cannot answer calls.

DIR/public is the web root: upload it, or let a server serve it. A static host must be told the exact media types, CORS, and to answer 404 for unknown paths under /.well-known/. DIR/public/_headers tells Netlify and Cloudflare Pages; DIR/nginx.conf and DIR/Caddyfile tell those servers and stay out of the web root.

The host makes its own ETag and Last-Modified. Try the result with publisher check.

  publisher build --config publisher.yaml --out site`
}

// webRoot is the folder of what everybody may read.
const webRoot = "public/"

// manifestName lists what build wrote, so that it can replace and remove it.
const manifestName = ".openbot-publisher"

// outFile is one file to write.
type outFile struct {
	name string // slash-separated, below the folder
	data []byte
}

func (b *buildCommand) run(_ context.Context, env *Env) error {
	config, err := readConfig("--config", b.Config)
	if err != nil {
		return err
	}
	for i, a := range config.settings.Apps {
		if a.Builtin != "" {
			config.faults = append(config.faults, config.fault(fmt.Sprintf("apps[%d].builtin", i),
				"the built-in server "+a.Builtin+" runs inside publisher serve and cannot be written as files: set endpoint to where the app's server runs"))
		}
	}
	for i, a := range config.settings.Apps {
		if a.Upstream != nil {
			config.faults = append(config.faults, config.fault(fmt.Sprintf("apps[%d].upstream", i),
				"an upstream is reached through publisher serve and cannot be written as files: set endpoint to where the app's server runs"))
			config.spoiled = append(config.spoiled, fmt.Sprintf("apps[%d].upstream", i))
		}
	}
	pub, err := config.publish(nil)
	if err != nil {
		return err
	}
	for _, f := range config.notForHosts() {
		fmt.Fprintf(env.Stdout, "! %s\n", plain(f.String()))
	}
	site := pub.Files()
	docs, err := asFiles(site)
	if err != nil {
		return err
	}
	pictures, err := config.pictures(pub)
	if err != nil {
		return err
	}
	snippets, err := hostSnippets(config.settings.Origin, site, pictures)
	if err != nil {
		return err
	}
	files := docs
	for _, p := range pictures {
		name, err := fileName(p)
		if err != nil {
			return err
		}
		files = append(files, outFile{name, p.Body})
	}
	// Some static hosts answer every unknown path with the root page unless
	// there is a page for this.
	files = append(files, outFile{"404.html", []byte("<!doctype html><title>Not found</title><p>Not found\n")})
	for i := range files {
		files[i].name = webRoot + files[i].name
	}
	files = append(files, snippets...)
	if err := writeSite(b.Out, files, b.Force); err != nil {
		return fmt.Errorf("write %s: %w", b.Out, err)
	}
	fmt.Fprintf(env.Stdout, "%d files in %s; the web root is %s\n", len(files), b.Out, filepath.Join(b.Out, webRoot))
	fmt.Fprintf(env.Stdout, "\nnext:\n  upload %s, or serve it with %s or %s\n  publisher check %s\n",
		filepath.Join(b.Out, webRoot), filepath.Join(b.Out, "nginx.conf"), filepath.Join(b.Out, "Caddyfile"), pub.config.Origin)
	return nil
}

// notForHosts is advice on members that only publisher serve heeds.
func (c *configFile) notForHosts() (advice faultList) {
	add := func(i int, member, value, header string) {
		if value != "" {
			f := c.fault(fmt.Sprintf("apps[%d].%s", i, member), "has no effect on files: a static host makes its own "+header)
			f.Level = check.Advice
			advice = append(advice, f)
		}
	}
	for _, i := range c.settings.servedHere() {
		add(i, "etag", c.settings.Apps[i].ETag, "ETag")
		add(i, "last_modified", c.settings.Apps[i].LastModified, "Last-Modified")
	}
	return advice
}

// asFiles names the file of each document, and refuses two that cannot stand
// beside each other.
func asFiles(site []publisher.File) ([]outFile, error) {
	var out []outFile
	names := map[string]string{} // file -> path
	for _, f := range site {
		name, err := fileName(f)
		if err != nil {
			return nil, err
		}
		names[name] = f.Path
		out = append(out, outFile{name, f.Body})
	}
	for name, of := range names {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if other, taken := names[dir]; taken {
				return nil, fmt.Errorf("%s and %s cannot both be files: one would have to be a folder; choose other addresses", other, of)
			}
		}
	}
	return out, nil
}

// fileName is where a static host finds a document. Pages get .html, which the
// hosts leave out of addresses again.
func fileName(f publisher.File) (string, error) {
	name, err := url.PathUnescape(strings.TrimPrefix(f.Path, "/"))
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.Path, err)
	}
	if strings.HasPrefix(f.Header.Get("Content-Type"), "text/html") {
		switch {
		case name == "" || strings.HasSuffix(name, "/"):
			name += "index.html"
		case path.Ext(name) != ".html":
			name += ".html"
		}
	}
	if !fs.ValidPath(name) || !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsAny(name, "\\\x00") {
		return "", fmt.Errorf("%s cannot be the name of a file", f.Path)
	}
	return name, nil
}

// pictures are the apps' assets as they are served.
func (c *configFile) pictures(pub *publication) ([]publisher.File, error) {
	var out []publisher.File
	for _, a := range pub.config.Apps {
		if a.Assets == nil {
			continue
		}
		entries, err := os.ReadDir(string(a.Assets.(lazyRoot)))
		if err != nil {
			return nil, fmt.Errorf("read assets of %s: %w", a.Slug, err)
		}
		for _, e := range entries {
			p := "/apps/" + a.Slug + "/assets/" + url.PathEscape(e.Name())
			answer := &kept{header: http.Header{}}
			r, err := http.NewRequest(http.MethodGet, p, nil) //nolint:noctx // answered in memory
			if err != nil {
				return nil, err
			}
			pub.ServeHTTP(answer, r)
			if answer.status == http.StatusOK {
				out = append(out, publisher.File{Path: p, Header: answer.header, Body: answer.body})
			}
		}
	}
	return out, nil
}

// kept is an answer that stays in memory.
type kept struct {
	header http.Header
	status int
	body   []byte
}

func (k *kept) Header() http.Header { return k.header }

func (k *kept) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

func (k *kept) Write(p []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	k.body = append(k.body, p...)
	return len(p), nil
}

// writeSite replaces what build wrote before. Each file appears whole or not at
// all; the catalogs come last, so that nobody is led to a card that is not
// there yet.
func writeSite(dir string, files []outFile, force bool) error {
	before, err := readManifest(dir)
	if err != nil {
		return err
	}
	if before == nil && !force {
		switch entries, err := os.ReadDir(dir); {
		case err == nil && len(entries) > 0:
			return errors.New("the folder holds files that build did not write; choose another, or use --force")
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	last := func(f outFile) int {
		switch "/" + strings.TrimPrefix(f.name, webRoot) {
		case catalog.WellKnownPath, catalog.ARDPath:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(files, func(a, b outFile) int { return last(a) - last(b) })
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, f.name)
	}
	slices.Sort(names)
	// What was written before stays on the list until it is gone.
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(names, before))))
	if err := writeFile(dir, outFile{manifestName, []byte(strings.Join(all, "\n") + "\n")}); err != nil {
		return err
	}
	for _, f := range files {
		if err := writeFile(dir, f); err != nil {
			return err
		}
	}
	for _, old := range before {
		if !slices.Contains(names, old) {
			if err := os.Remove(filepath.Join(dir, filepath.FromSlash(old))); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return writeFile(dir, outFile{manifestName, []byte(strings.Join(names, "\n") + "\n")})
}

// readManifest gives the files that build wrote into dir; nil if it never did.
func readManifest(dir string) ([]string, error) {
	data, err := readLimited(filepath.Join(dir, manifestName), maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := []string{}
	for line := range strings.Lines(string(data)) {
		if name := strings.TrimSpace(line); fs.ValidPath(name) && filepath.IsLocal(filepath.FromSlash(name)) {
			names = append(names, name)
		}
	}
	return names, nil
}

func writeFile(dir string, f outFile) error {
	target := filepath.Join(dir, filepath.FromSlash(f.name))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { // a public site
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(target), ".tmp-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(f.data)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()) // a public site
	if err == nil {
		err = os.Rename(tmp.Name(), target)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error counts
	}
	return err
}
