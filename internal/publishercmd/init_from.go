package publishercmd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher/gateway"
)

// looked is what was found of an MCP server that exists.
type looked struct {
	Impl                 mcp.Implementation
	Name, Title, Version string
	Description          string
	Command              []string
	Dir, URL             string
	Env, Header          []pair
	Tools, Prompts       []named
	Resources            int
	Corrections          []gateway.Correction
	Suggested            []suggestion
	literal              string // the variable or header whose value stands in the file
}

type pair struct{ Name, Value string }

type named struct{ Name, Title, Description string }

type suggestion struct{ ID, Title, Prompt string }

// from looks at the server of --from and writes a configuration for it.
func (c *initCommand) from(ctx context.Context, env *Env, d *draft) ([]byte, error) {
	u, err := c.upstream()
	if err != nil {
		return nil, err
	}
	// It is started as publisher serve will start it.
	file := &configFile{name: "--from", dir: "."}
	if c.Out != "-" {
		file.dir = filepath.Dir(c.Out)
	}
	if u.Dir, err = c.dir(u, file.dir); err != nil {
		return nil, err
	}
	file.settings.Apps = []appConfig{{Slug: "app", Upstream: u}}
	opts, secrets, faults := file.upstream(0, env.Getenv, false)
	if len(faults) > 0 {
		var lines []string
		for _, f := range faults {
			lines = append(lines, strings.TrimPrefix(f.Pointer, "apps[0].upstream")+" "+f.Message)
		}
		return nil, badCallf("--from: %s", strings.TrimSpace(strings.Join(lines, "; ")))
	}
	said := &tail{}
	opts.Stderr, opts.StartTimeout, opts.FailFast = said, c.Wait, true
	gw, err := gateway.New(ctx, opts)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		text := "--from: " + mask(oneLine(err), secrets) + advice(err)
		if last := said.String(); last != "" && !strings.Contains(text, oneLine(errors.New(last[strings.LastIndexByte(last, '\n')+1:]))) {
			text += "\nthe last that it said:\n" + mask(last, secrets)
		}
		return nil, errors.New(text)
	}
	defer gw.Close()

	l := &looked{Command: u.Command, Dir: u.Dir, URL: u.URL, Env: pairs(u.Env), Header: pairs(u.Headers), Corrections: gw.Corrections()}
	for _, p := range slices.Concat(l.Env, l.Header) {
		if !variableForm.MatchString(p.Value) && l.literal == "" {
			l.literal = p.Name
		}
	}
	var instructions string
	l.Impl, instructions = gw.Info()
	a := (&appConfig{}).filled(l.Impl, instructions, d.Origin)
	l.Name, l.Title, l.Version, l.Description = a.Name, a.Title, string(a.Version), a.Description
	if err := l.look(ctx, gw.Server()); err != nil {
		return nil, fmt.Errorf("look at the server: %w", err)
	}
	if d.Slug = c.Slug; d.Slug == "" {
		d.Slug = slugOf(l.Impl.Name)
	}
	d.From = l
	data, err := d.write()
	if err != nil {
		return nil, err
	}
	opts.StartTimeout = 0 // as it stands in the file
	return data, proven(data, file.dir, env, gw, opts)
}

// advice says what to do about a server that does not answer, where that can be
// told.
func advice(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(text, "connection refused"):
		return "; nobody listens there: start the server first, or correct the address"
	case strings.Contains(text, "HTTP status 401") || strings.Contains(text, "HTTP status 403"):
		return "; it wants a credential: give it with --header 'Authorization: Bearer ${TOKEN}'"
	case strings.Contains(text, "HTTP status 404") || strings.Contains(text, "HTTP status 405") || strings.Contains(text, "no MCP server: it answers"):
		return "; the address is not that of an MCP endpoint, which often ends in /mcp or /sse"
	case strings.Contains(text, "no MCP server"), strings.HasSuffix(text, "the command ended"): // as if all were done
		return "; name a program that speaks MCP over its standard input and output"
	}
	return ""
}

// proven reports why what init wrote could not be served, which is a fault of
// ours or of --slug.
func proven(data []byte, dir string, env *Env, gw *gateway.Gateway, opts *gateway.Options) error {
	config, err := parseConfig("publisher.yaml", dir, data)
	if err != nil {
		return err
	}
	slug := config.settings.Apps[0].Slug
	config.upstreams = map[int]*upstream{0: {slug: slug, key: upstreamKey(slug, opts), gateway: gw}}
	if _, _, faults := config.upstream(0, env.Getenv, false); len(faults) > 0 {
		return faults
	}
	_, err = config.publish(nil)
	return err
}

// upstream reads --from, --env and --header.
func (c *initCommand) upstream() (*upstreamConfig, error) {
	u := &upstreamConfig{}
	if strings.HasPrefix(c.From, "http://") || strings.HasPrefix(c.From, "https://") {
		if len(c.Env) > 0 {
			return nil, badCallf("--env goes with a command: an address gets its secrets by --header")
		}
		u.URL = c.From
	} else {
		if len(c.Header) > 0 {
			return nil, badCallf("--header goes with an address: a command gets its secrets by --env")
		}
		var err error
		if u.Command, err = splitWords(c.From); err != nil {
			return nil, badCallf("--from: %v", err)
		}
	}
	for _, list := range []struct {
		from      []string
		to        *map[string]verbatim
		flag, sep string
	}{{c.Env, &u.Env, "--env", "="}, {c.Header, &u.Headers, "--header", ":"}} {
		for _, s := range list.from {
			name, value, ok := strings.Cut(s, list.sep)
			if !ok || name == "" {
				return nil, badCallf("%s: write NAME%sVALUE", list.flag, list.sep)
			}
			if *list.to == nil {
				*list.to = map[string]verbatim{}
			}
			(*list.to)[strings.TrimSpace(name)] = verbatim(strings.TrimSpace(value))
		}
	}
	return u, nil
}

// dir is where the command runs: here. "" says that this is the file's folder.
func (c *initCommand) dir(u *upstreamConfig, fileDir string) (string, error) {
	if u.URL != "" {
		return "", nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find working directory: %w", err)
	}
	there, err := filepath.Abs(fileDir)
	if err != nil {
		return "", fmt.Errorf("find folder of configuration: %w", err)
	}
	rel, err := filepath.Rel(there, here)
	if err != nil {
		return here, nil //nolint:nilerr // on another drive; the whole path says it too
	}
	if rel == "." {
		return "", nil
	}
	return filepath.ToSlash(rel), nil
}

func pairs(m map[string]verbatim) []pair {
	var out []pair
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pair{name, string(m[name])})
	}
	return out
}

// Bounds of what a file says of a server; what is more would not be read.
const (
	maxNamed     = 200
	maxSuggested = 3
)

// look reads the lists, as clients see them. No tool is run.
func (l *looked) look(ctx context.Context, server *mcp.Server) error {
	near, far := mcp.NewInMemoryTransports()
	served, err := server.Connect(ctx, far, nil)
	if err != nil {
		return err
	}
	defer served.Close()
	client := mcp.NewClient(&mcp.Implementation{Name: "openbot-publisher-init", Version: version()}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, near, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		return err
	}
	defer session.Close()
	for _, t := range some(session.Tools(ctx, nil)) {
		l.Tools = append(l.Tools, named{t.Name, t.Title, t.Description})
	}
	for _, p := range some(session.Prompts(ctx, nil)) {
		l.Prompts = append(l.Prompts, named{p.Name, p.Title, p.Description})
	}
	l.Resources = len(some(session.Resources(ctx, nil))) + len(some(session.ResourceTemplates(ctx, nil)))
	for _, t := range l.Tools {
		if len(l.Suggested) == maxSuggested {
			break
		}
		s := suggestion{ID: slugOf(t.Name), Title: clip(comment(t.Title), 100), Prompt: comment(t.Description)}
		if s.Title == "" {
			s.Title = clip(comment(t.Name), 100)
		}
		if s.Prompt != "" && !slices.ContainsFunc(l.Suggested, func(o suggestion) bool { return o.ID == s.ID }) {
			l.Suggested = append(l.Suggested, s)
		}
	}
	if len(l.Suggested) == 0 {
		l.Suggested = []suggestion{{"first", "First words", "What can you do?"}}
	}
	return ctx.Err()
}

// some gives a list up to its first error, which a server without that list
// gives at once, or up to maxNamed.
func some[T any](list iter.Seq2[T, error]) (items []T) {
	for item, err := range list {
		if err != nil || len(items) == maxNamed {
			break
		}
		items = append(items, item)
	}
	return items
}

// splitWords splits a command line as a shell does, and knows quotes and the
// backslash only: nothing is expanded, piped or put in the background.
func splitWords(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	in, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case strings.ContainsRune("|&;<>`", r):
			return nil, fmt.Errorf("%q means something to a shell, which is not used here: quote it, or write a script and name that", r)
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote is not closed")
	}
	if in {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("name a command or an address")
	}
	return words, nil
}

// tail keeps the end of what a command says on standard error.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const maxTail = 2000

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String gives it without what could steer a terminal.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(t.buf)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			lines = append(lines, "  "+plain(line))
		}
	}
	return strings.Join(lines, "\n")
}
