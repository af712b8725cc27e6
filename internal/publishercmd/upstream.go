package publishercmd

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/openbot-build/openbot-go/publisher/gateway"
)

// upstreamConfig is an MCP server that exists already: a command or an address.
// Its texts may hold ${NAME}, which stands for a variable of the environment,
// so that secrets need not be in the file; $${NAME} is written as it is.
type upstreamConfig struct {
	Command []string            `yaml:"command"`
	Dir     string              `yaml:"dir"` // "" is the folder of the file
	Env     map[string]verbatim `yaml:"env"`

	URL     string              `yaml:"url"`
	Headers map[string]verbatim `yaml:"headers"`

	StartTimeout string   `yaml:"start_timeout"`
	CallTimeout  string   `yaml:"call_timeout"`
	MaxResult    verbatim `yaml:"max_result"`
	MaxCalls     int      `yaml:"max_calls"`
}

var variableForm = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expansion replaces variables in texts of a configuration.
type expansion struct {
	getenv  func(string) string
	missing []string // variables that are not set
	secrets []string // what was put in: never to be logged
}

func (e *expansion) text(s string) string {
	return variableForm.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name := m[2 : len(m)-1]
		value := e.getenv(name)
		if value == "" {
			if !slices.Contains(e.missing, name) {
				e.missing = append(e.missing, name)
			}
			return m
		}
		if len(value) > 3 { // shorter ones are no secrets, and stand in every sentence
			e.secrets = append(e.secrets, value)
		}
		return value
	})
}

// mask takes out of a text what came from variables. Texts of an upstream's
// failures may quote its address or its arguments.
func mask(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "[secret]")
		text = strings.ReplaceAll(text, url.QueryEscape(s), "[secret]")
	}
	return text
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// upstream gives the options of app i's upstream. offline does not ask for the
// variables: then the options are good for a judgement only.
func (c *configFile) upstream(i int, getenv func(string) string, offline bool) (opts *gateway.Options, secrets []string, faults faultList) {
	u := c.settings.Apps[i].Upstream
	at := fmt.Sprintf("apps[%d].upstream", i)
	bad := func(member, format string, args ...any) {
		faults = append(faults, c.fault(at+member, fmt.Sprintf(format, args...)))
	}
	ex := &expansion{getenv: getenv}
	// text expands a value and speaks of variables that are not set, at its place.
	text := func(member, s string) string {
		ex.missing = nil
		s = ex.text(s)
		for _, name := range ex.missing {
			if !offline {
				bad(member, "the variable %s is not set", name)
			}
		}
		return s
	}
	opts = &gateway.Options{}
	switch {
	case len(u.Command) > 0 && u.URL != "":
		bad("", "give a command or a url, not both")
	case len(u.Command) > 0:
		c.commandUpstream(u, opts, text, bad)
		if len(u.Headers) > 0 {
			bad(".headers", "go with url: a command gets its secrets in env")
		}
	case u.URL != "":
		httpUpstream(u, opts, text, bad)
		if len(u.Env) > 0 || u.Dir != "" {
			bad("", "env and dir go with command: an address gets its secrets in headers")
		}
	default:
		bad("", "give a command to start, or the url of a server that runs")
	}
	var err error
	if u.StartTimeout != "" {
		if opts.StartTimeout, err = parseSpan(u.StartTimeout); err != nil {
			bad(".start_timeout", "%v", err)
		}
	}
	if u.CallTimeout != "" {
		if opts.CallTimeout, err = parseSpan(u.CallTimeout); err != nil {
			bad(".call_timeout", "%v", err)
		}
	}
	if u.MaxResult != "" {
		if opts.MaxResult, err = parseSize(string(u.MaxResult)); err != nil {
			bad(".max_result", "%v", err)
		}
	}
	if opts.MaxCalls = u.MaxCalls; opts.MaxCalls < 0 {
		bad(".max_calls", "write a number above 0, or leave it out")
	}
	return opts, ex.secrets, faults
}

func (c *configFile) commandUpstream(u *upstreamConfig, opts *gateway.Options, text func(member, s string) string, bad func(member, format string, args ...any)) {
	for n, arg := range u.Command {
		opts.Command = append(opts.Command, text(fmt.Sprintf(".command[%d]", n), arg))
	}
	opts.Dir = c.path(u.Dir)
	if !isFolder(opts.Dir) {
		bad(".dir", "%s is no folder", opts.Dir)
		return
	}
	if u.Command[0] == "" {
		bad(".command[0]", "name a program")
	} else if !strings.ContainsAny(opts.Command[0], `/\`) { // a path counts from dir, as for the system
		if _, err := exec.LookPath(opts.Command[0]); err != nil {
			bad(".command[0]", "there is no program %s: install it, or write its path", opts.Command[0])
		}
	}
	if len(u.Env) > 0 {
		opts.Env = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Env)) {
		if !variableName.MatchString(name) {
			bad(".env", "%q is no name of a variable", name)
			continue
		}
		opts.Env[name] = text(".env."+name, string(u.Env[name]))
	}
}

func httpUpstream(u *upstreamConfig, opts *gateway.Options, text func(member, s string) string, bad func(member, format string, args ...any)) {
	opts.URL = text(".url", u.URL)
	if a, err := url.Parse(opts.URL); err != nil || a.Scheme != "http" && a.Scheme != "https" || a.Host == "" {
		bad(".url", "is no http or https address of an MCP server")
	} else if a.User != nil {
		bad(".url", "has a password in it: send it in headers")
	}
	if len(u.Headers) > 0 {
		opts.Header = http.Header{}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		value := text(".headers."+name, string(u.Headers[name]))
		switch lower := strings.ToLower(name); {
		case !httpguts.ValidHeaderFieldName(name):
			bad(".headers", "%q is no name of a header", name)
		case lower == "host" || lower == "accept" || lower == "content-type" || lower == "content-length" || strings.HasPrefix(lower, "mcp-"):
			bad(".headers."+name, "is set by the protocol: remove it")
		case !httpguts.ValidHeaderFieldValue(value):
			bad(".headers."+name, "its value cannot be a header's")
		default:
			opts.Header.Set(name, value)
		}
	}
}
