package publishercmd

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publisher"
)

// hostSnippets are the settings that make static hosts serve the files as the
// publisher would: exact media types, CORS, preflights, and real 404s.
func hostSnippets(origin string, site, pictures []publisher.File) ([]outFile, error) {
	u, err := weburl.Parse(origin)
	if err != nil {
		return nil, err
	}
	rules := append(slices.Clone(site), assetRules(pictures)...)
	for _, f := range rules {
		for _, v := range f.Header {
			if strings.ContainsAny(f.Path+strings.Join(v, ""), "$\\\n{}") {
				return nil, fmt.Errorf("%s: a character of its address or headers cannot be written in server settings: one of $ \\ { }", f.Path)
			}
		}
	}
	return []outFile{
		{webRoot + "_headers", headersFile(rules)}, // hosts look for it there
		{"nginx.conf", nginxFile(u, rules, pictureTypes(pictures))},
		{"Caddyfile", caddyFile(u, rules)},
	}, nil
}

// assetRules is one rule for each folder of pictures: their types are told by
// their names.
func assetRules(pictures []publisher.File) []publisher.File {
	var out []publisher.File
	for _, p := range pictures {
		dir := p.Path[:strings.LastIndex(p.Path, "/")+1] + "*"
		if !slices.ContainsFunc(out, func(f publisher.File) bool { return f.Path == dir }) {
			h := p.Header.Clone()
			h.Del("Content-Type")
			out = append(out, publisher.File{Path: dir, Header: h})
		}
	}
	return out
}

// hostHeaders are the headers to set; the others are the host's own business.
func hostHeaders(h http.Header) []string {
	names := slices.Sorted(maps.Keys(h))
	return slices.DeleteFunc(names, func(n string) bool {
		switch n {
		case "Content-Length", "Accept-Ranges", "Etag", "Last-Modified", "Content-Type":
			return true
		}
		return false
	})
}

// headersFile is understood by Netlify, Cloudflare Pages and others.
func headersFile(rules []publisher.File) []byte {
	var b strings.Builder
	b.WriteString("# Written by publisher build.\n")
	write := func(f publisher.File) {
		if t := f.Header.Get("Content-Type"); t != "" {
			fmt.Fprintf(&b, "  Content-Type: %s\n", t)
		}
		for _, name := range hostHeaders(f.Header) {
			fmt.Fprintf(&b, "  %s: %s\n", name, f.Header.Get(name))
		}
	}
	for _, f := range rules {
		fmt.Fprintf(&b, "\n%s\n", f.Path)
		write(f)
		if name, err := fileName(f); err == nil && "/"+name != f.Path && !strings.HasSuffix(f.Path, "*") {
			fmt.Fprintf(&b, "\n/%s\n", name) // the hosts may answer there too
			write(f)
		}
	}
	return []byte(b.String())
}

// pictureTypes gives nginx's word for each type of picture: type and extensions.
func pictureTypes(pictures []publisher.File) string {
	var types []string
	for _, p := range pictures {
		types = append(types, p.Header.Get("Content-Type")+" "+strings.TrimPrefix(path.Ext(p.Path), ".")+";")
	}
	slices.Sort(types)
	return strings.Join(slices.Compact(types), " ")
}

func nginxFile(u weburl.URL, rules []publisher.File, pictureTypes string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `# Written by publisher build. Include it in the server block of %s,
# which has its own listen, server_name, certificate, and as root the folder
# public beside this file. nginx makes ETags from a file's time and size: keep
# the times when you copy the files to several machines (rsync -t).

# Nothing is answered with a redirect; if one comes from elsewhere it does not
# tell a port that only this machine knows.
absolute_redirect off;
port_in_redirect off;
error_page 404 /404.html;

# Sent with answers to methods other than GET and HEAD.
set $openbot_allow "";
if ($request_method !~ "^(GET|HEAD)$") { set $openbot_allow "GET, HEAD, OPTIONS"; }
`, u.Origin())
	for _, f := range rules {
		if dir, isDir := strings.CutSuffix(f.Path, "*"); isDir {
			fmt.Fprintf(&b, "\nlocation %s {\n    types { %s }\n    try_files $uri =404;\n", dir, pictureTypes)
		} else {
			fmt.Fprintf(&b, "\nlocation = %s {\n", f.Path)
		}
		if t := f.Header.Get("Content-Type"); t != "" {
			fmt.Fprintf(&b, "    types { }\n    default_type \"%s\";\n", t)
		}
		for _, name := range hostHeaders(f.Header) {
			fmt.Fprintf(&b, "    add_header %s \"%s\" always;\n", name, strings.ReplaceAll(f.Header.Get(name), `"`, `\"`))
		}
		b.WriteString("    add_header Allow $openbot_allow always;\n")
		b.WriteString("    if ($request_method = OPTIONS) { return 204; }\n")
		if name, err := fileName(f); err == nil && "/"+name != f.Path && !strings.HasSuffix(f.Path, "*") {
			fmt.Fprintf(&b, "    try_files /%s =404;\n}\nlocation = /%[1]s { internal; }\n", name)
			continue
		}
		b.WriteString("}\n")
	}
	b.WriteString(`
location = /404.html { internal; }
location = /_headers { return 404; }
location ^~ /.well-known/acme-challenge/ { }
location ^~ /.well-known/ { return 404; }
# Files only: a folder is not found.
location / { try_files $uri =404; }
`)
	return []byte(b.String())
}

func caddyFile(u weburl.URL, rules []publisher.File) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by publisher build. Run caddy in this folder, or write the full path of public.\n%s {\n\troot * public\n", u.Authority())
	var paths []string
	for i, f := range rules {
		paths = append(paths, f.Path)
		fmt.Fprintf(&b, "\n\t@doc%d path %s\n\theader @doc%d {\n", i, f.Path, i)
		if t := f.Header.Get("Content-Type"); t != "" {
			fmt.Fprintf(&b, "\t\tContent-Type \"%s\"\n", t)
		}
		for _, name := range hostHeaders(f.Header) {
			fmt.Fprintf(&b, "\t\t%s `%s`\n", name, f.Header.Get(name))
		}
		b.WriteString("\t}\n")
	}
	var pages, hidden strings.Builder
	for _, f := range rules {
		if name, err := fileName(f); err == nil && "/"+name != f.Path && !strings.HasSuffix(f.Path, "*") {
			fmt.Fprintf(&pages, "\t\trewrite %s /%s\n", f.Path, name)
			hidden.WriteString(" /" + name)
		}
	}
	wellKnown := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !strings.HasPrefix(p, "/.well-known/") })
	fmt.Fprintf(&b, `
	@preflight {
		method OPTIONS
		path %s
	}
	header @preflight Allow "GET, HEAD, OPTIONS"
	@write not method GET HEAD OPTIONS
	header @write Allow "GET, HEAD, OPTIONS"
	@unknown {
		path /.well-known/*
		not path %s
	}
	@hidden path /404.html /_headers%s
	@folder not file {path}

	# In this order, which Caddy keeps in a route.
	route {
		respond @preflight 204
		respond @write 405
		error @unknown 404
		error @hidden 404
%s		error @folder 404
		file_server
	}
	handle_errors {
		rewrite * /404.html
		file_server
	}
}
`, strings.Join(paths, " "), strings.Join(wellKnown, " "), hidden.String(), pages.String())
	return []byte(b.String())
}
