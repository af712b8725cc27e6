package publishercmd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/publicnet"
)

// authConfig says who may call an app.
type authConfig struct {
	Issuers       []issuerConfig `yaml:"issuers"`
	Scopes        *scopesConfig  `yaml:"scopes"`
	Documentation string         `yaml:"documentation"`
	Leeway        string         `yaml:"leeway"`
}

// issuerConfig is an authorization server whose tokens are taken.
type issuerConfig struct {
	URL           string               `yaml:"url"`
	Algorithms    []string             `yaml:"algorithms"`
	JWKS          string               `yaml:"jwks"`
	Introspection *introspectionConfig `yaml:"introspection"`
}

// introspectionConfig is how the issuer is asked about a token. The secret never
// stands in the file: it is a variable, or the content of another file.
type introspectionConfig struct {
	Endpoint   string   `yaml:"endpoint"`
	ClientID   verbatim `yaml:"client_id"`
	Secret     string   `yaml:"client_secret"` // ${NAME}
	SecretFile string   `yaml:"client_secret_file"`
	Always     bool     `yaml:"always"`
}

// scopesConfig is what operations need.
type scopesConfig struct {
	Basic   []string            `yaml:"basic"`
	Tools   map[string][]string `yaml:"tools"`
	Methods map[string][]string `yaml:"methods"`
	Implies map[string][]string `yaml:"implies"`
}

// issuerAgent is how the publisher names itself to issuers.
const issuerAgent = "OpenBot-publisher/1"

// maxSecret bounds a file that holds a secret.
const maxSecret = 4096

// reading tells how what auth needs of the surroundings is read.
type reading struct {
	getenv  func(string) string
	below   publicnet.Below // under the guard of what is asked of issuers
	offline bool            // secrets are not asked for: good for a judgement, and for files
}

// protections makes the protection of every app that has an auth block and
// keeps it in c.protected. What is wrong is a fault of the file.
func (c *configFile) protections(how *reading) {
	c.protected = map[int]*oauth.Protection{}
	for i := range c.settings.Apps {
		a := &c.settings.Apps[i]
		if a.Auth == nil || a.Hosted != nil {
			continue
		}
		here := *how
		here.offline = here.offline || a.Builtin == "" && a.Upstream == nil // nothing is checked here
		c.protect(i, a.Auth, &here)
	}
}

func (c *configFile) protect(i int, a *authConfig, how *reading) {
	at := fmt.Sprintf("apps[%d].auth", i)
	bad := func(member, format string, args ...any) {
		f := c.fault(at+member, fmt.Sprintf(format, args...))
		if !c.invented(f.Pointer) {
			c.faults = append(c.faults, f)
		}
	}
	p := &oauth.Protection{Documentation: a.Documentation}
	if len(a.Issuers) == 0 {
		bad(".issuers", "name at least one authorization server: - url: https://signin.example.com")
		c.spoiled = append(c.spoiled, at+".issuers") // said already
	}
	var ports []int
	reach := func(address string) {
		if u, err := weburl.Parse(address); err == nil && !slices.Contains(ports, u.Port()) {
			ports = append(ports, u.Port()) // the operator names it, and so agrees to its port
		}
	}
	for n := range a.Issuers {
		in := &a.Issuers[n]
		out := oauth.Issuer{URL: in.URL, Algorithms: in.Algorithms, JWKS: in.JWKS}
		reach(in.URL)
		reach(in.JWKS)
		if q := in.Introspection; q != nil {
			reach(q.Endpoint)
			member := fmt.Sprintf(".issuers[%d].introspection", n)
			secret := c.clientSecret(q, how, func(below, format string, args ...any) { bad(member+below, format, args...) })
			out.Introspection = &oauth.Introspection{Endpoint: q.Endpoint, ClientID: string(q.ClientID), ClientSecret: secret, Always: q.Always}
		}
		p.Issuers = append(p.Issuers, out)
	}
	if s := a.Scopes; s != nil {
		p.Scopes = oauth.Scopes{Basic: s.Basic, Tools: s.Tools, Methods: s.Methods, Implies: s.Implies}
	}
	if s := a.Scopes; s != nil {
		checkOperations(s, bad)
	}
	if a.Leeway != "" {
		var err error
		if p.Leeway, err = parseSpan(a.Leeway); err != nil {
			bad(".leeway", "%v", err)
		}
	}
	network, err := publicnet.New(&publicnet.Options{UserAgent: issuerAgent, Ports: ports, Below: how.below})
	if err != nil {
		bad("", "%v", err)
	}
	p.Network = network
	c.protected[i] = p
}

// mcpMethods are those that an app can be asked for, over both eras.
var mcpMethods = []string{
	"completion/complete", "initialize", "logging/setLevel", "ping", "prompts/get", "prompts/list", "resources/list", "resources/read",
	"resources/subscribe", "resources/templates/list", "resources/unsubscribe", "server/discover", "subscriptions/listen", "tools/call", "tools/list",
}

// checkOperations refuses names that would protect nothing. A method of another
// family than MCP's own may be an upstream's.
func checkOperations(s *scopesConfig, bad func(member, format string, args ...any)) {
	for _, name := range slices.Sorted(maps.Keys(s.Methods)) {
		family, _, _ := strings.Cut(name, "/")
		of := func(m string) bool {
			return strings.EqualFold(m, name) || strings.HasPrefix(m, strings.ToLower(family)+"/")
		}
		if !slices.Contains(mcpMethods, name) && slices.ContainsFunc(mcpMethods, of) {
			bad(".scopes.methods", "%q is no method of MCP; they are %s", name, strings.Join(mcpMethods, ", "))
		}
	}
	for member, table := range map[string]map[string][]string{"methods": s.Methods, "tools": s.Tools} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if len(table[name]) == 0 {
				bad(".scopes."+member+"."+name, "name at least one scope, or remove the line, for basic is enough then")
			}
		}
	}
}

var wholeVariable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// clientSecret reads the secret of an introspection client. Where it is not to
// be had and need not be, it gives a stand-in that opens nothing.
func (c *configFile) clientSecret(q *introspectionConfig, how *reading, bad func(member, format string, args ...any)) oauth.Secret {
	const standIn = oauth.Secret("not read")
	m := wholeVariable.FindStringSubmatch(q.Secret)
	switch {
	case q.Secret != "" && q.SecretFile != "":
		bad(".client_secret", "stands beside client_secret_file: remove one of them")
	case q.Secret == "" && q.SecretFile == "":
		bad("", "needs client_secret or client_secret_file: an issuer answers nobody who does not say who asks")
	case q.Secret != "" && m == nil:
		bad(".client_secret", "write ${NAME} for a variable of the environment, or name a file in client_secret_file: a secret does not belong into this file")
	case how.offline:
	case m != nil:
		if value := how.getenv(m[1]); value != "" {
			return oauth.Secret(value)
		}
		bad(".client_secret", "the variable %s is not set", m[1])
	default:
		secret, err := readSecret(c.path(q.SecretFile))
		if err != nil {
			bad(".client_secret_file", "%v", fileError("", q.SecretFile, err))
			break
		}
		return secret
	}
	return standIn
}

// readSecret reads a secret that fills a file, but for white space around it.
func readSecret(name string) (oauth.Secret, error) {
	data, err := readLimited(name, maxSecret)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 {
		return "", errors.New("everybody on this machine can read or write it: chmod 600")
	}
	text := strings.TrimSpace(string(data))
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return "", errors.New("holds no secret on one line")
	}
	return oauth.Secret(text), nil
}

// authMembers are the names in the file of fields of oauth.Protection.
var authMembers = map[string]string{
	"Issuers": "issuers", "URL": "url", "Algorithms": "algorithms", "JWKS": "jwks",
	"Introspection": "introspection", "Endpoint": "endpoint", "ClientID": "client_id", "ClientSecret": "client_secret",
	"Scopes": "scopes", "Basic": "basic", "Tools": "tools", "Methods": "methods", "Implies": "implies",
	"Documentation": "documentation", "Leeway": "leeway",
}

var protectionField = regexp.MustCompile(`^Apps\[(\d+)\]\.Protection(?:\.(.+))?$`)

// authPath is the path below auth of a field below Protection, such as
// "Issuers[0].URL". What has no name in the file belongs to what is around it.
func authPath(field string) string {
	path := "auth"
	for step := range strings.SplitSeq(field, ".") {
		name, index := step, ""
		if i := strings.IndexByte(step, '['); i >= 0 {
			name, index = step[:i], step[i:]
		}
		member := authMembers[name]
		if member == "" {
			break
		}
		path += "." + member
		if !plainIndex.MatchString(index) {
			break
		}
		path += index
	}
	return path
}

var plainIndex = regexp.MustCompile(`^(\[\d+\])*$`)

// metadataElsewhere says whether the endpoint of a protected app is on another
// origin, whose server then has to serve the resource metadata.
func (c *configFile) metadataElsewhere(i int) bool {
	base, err := weburl.Parse(c.settings.Origin)
	if err != nil || c.settings.Apps[i].Endpoint == "" {
		return false
	}
	u, err := base.Resolve(c.settings.Apps[i].Endpoint)
	return err == nil && u.Origin() != base.Origin()
}

// adviseAuth says what an operator should know of an app's sign-in.
func (c *configFile) adviseAuth(i int, advise func(member, message string)) {
	a := &c.settings.Apps[i]
	if a.Auth == nil {
		return
	}
	if c.metadataElsewhere(i) {
		advise("auth", "the endpoint is on another origin, which has to check tokens and serve the resource metadata itself: this only tells people on the app's page")
	} else if a.Endpoint != "" && a.Builtin == "" && a.Upstream == nil {
		advise("auth", "nothing is checked here, for the endpoint runs elsewhere: its server has to refuse calls without a token; the resource metadata is served here")
	}
	for n := range a.Auth.Issuers {
		q := a.Auth.Issuers[n].Introspection
		if q == nil || q.SecretFile == "" {
			continue
		}
		if _, err := os.Stat(c.path(q.SecretFile)); errors.Is(err, fs.ErrNotExist) {
			advise(fmt.Sprintf("auth.issuers[%d].introspection.client_secret_file", n), "the file is not here now; it has to be where publisher serve runs")
		}
	}
}
