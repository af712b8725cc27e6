package publishercmd

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/publisher/check"
)

// maxConfig bounds a configuration file.
const maxConfig = 1 << 20

// settings is the configuration file. `publisher init` writes one with a
// comment on every member.
type settings struct {
	Origin       string      `yaml:"origin"`
	Publisher    *host       `yaml:"publisher"`
	Lang         string      `yaml:"lang"`
	ARD          *bool       `yaml:"ard"`
	CacheControl string      `yaml:"cache_control"`
	Proxy        *proxy      `yaml:"proxy"`
	TLS          *tlsConfig  `yaml:"tls"`
	Limits       *limits     `yaml:"limits"`
	Telemetry    *telemetry  `yaml:"telemetry"`
	Apps         []appConfig `yaml:"apps"`
}

type host struct {
	Name          string `yaml:"name"`
	Identifier    string `yaml:"identifier"`
	Documentation string `yaml:"documentation"`
	Logo          string `yaml:"logo"`
}

// proxy names who may speak plain HTTP to a listener that others can reach.
type proxy struct {
	Trusted []string `yaml:"trusted"`
}

// appConfig is one app: served here, or with hosted set only listed.
type appConfig struct {
	Hosted *hosted `yaml:"hosted"`

	Slug       string `yaml:"slug"`
	Identifier string `yaml:"identifier"`

	Name        string      `yaml:"name"`
	Title       string      `yaml:"title"`
	Version     verbatim    `yaml:"version"`
	Description string      `yaml:"description"`
	Website     string      `yaml:"website"`
	Repository  *repository `yaml:"repository"`
	Icons       []icon      `yaml:"icons"`
	Examples    []example   `yaml:"examples"`
	Settings    []setting   `yaml:"settings"`
	Card        string      `yaml:"card"`

	Endpoint       string          `yaml:"endpoint"`
	Builtin        string          `yaml:"builtin"`
	Upstream       *upstreamConfig `yaml:"upstream"`
	AllowedOrigins []string        `yaml:"allowed_origins"`
	ModernOnly     bool            `yaml:"modern_only"`
	Limits         *limits         `yaml:"limits"` // in place of the general ones
	Auth           *authConfig     `yaml:"auth"`

	CardURL    string `yaml:"card_url"`
	PageURL    string `yaml:"page_url"`
	CatalogURL string `yaml:"catalog_url"`

	NoIndex      bool   `yaml:"noindex"`
	CacheControl string `yaml:"cache_control"`
	ETag         string `yaml:"etag"`
	LastModified string `yaml:"last_modified"`
	Assets       string `yaml:"assets"`
	Lang         string `yaml:"lang"`
}

// verbatim is a scalar as it is written: a version 1.10 is not the number 1.1.
type verbatim string

// UnmarshalYAML takes the text of a number as it takes a string.
func (v *verbatim) UnmarshalYAML(node ast.Node) error {
	switch n := node.(type) {
	case *ast.StringNode:
		*v = verbatim(n.Value)
	case *ast.LiteralNode:
		*v = verbatim(n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		*v = verbatim(node.GetToken().Value)
	default:
		return &yaml.SyntaxError{Token: node.GetToken(), Message: fmt.Sprintf("%s is no text: write it in quotes", node)}
	}
	return nil
}

type hosted struct {
	Card       string `yaml:"card"`
	Title      string `yaml:"title"`
	Identifier string `yaml:"identifier"`
}

type repository struct {
	URL       string `yaml:"url"`
	Source    string `yaml:"source"`
	Subfolder string `yaml:"subfolder"`
	ID        string `yaml:"id"`
}

type icon struct {
	Src   string   `yaml:"src"`
	Type  string   `yaml:"type"`
	Sizes []string `yaml:"sizes"`
	Theme string   `yaml:"theme"`
}

type example struct {
	ID          string   `yaml:"id"`
	Title       string   `yaml:"title"`
	Prompt      string   `yaml:"prompt"`
	Description string   `yaml:"description"`
	Preview     *preview `yaml:"preview"`
}

type preview struct {
	Src    string `yaml:"src"`
	Alt    string `yaml:"alt"`
	Width  int    `yaml:"width"`
	Height int    `yaml:"height"`
	Type   string `yaml:"type"`
}

// setting is a header that a user's host sends to the endpoint.
type setting struct {
	Header      string   `yaml:"header"`
	Description string   `yaml:"description"`
	Required    bool     `yaml:"required"`
	Secret      bool     `yaml:"secret"`
	Default     string   `yaml:"default"`
	Choices     []string `yaml:"choices"`
}

// configFile is a configuration file as read.
type configFile struct {
	name      string
	dir       string // relative paths in it start here
	settings  settings
	tree      *ast.File
	trusted   []netip.Prefix
	data      []byte                    // the file
	upstreams map[int]*upstream         // by app; connect fills it
	protected map[int]*oauth.Protection // by app; connect fills it, or publish
	faults    faultList                 // of the form; publish gives them with all others
	spoiled   []string                  // paths of what could not be read
}

// fault is one thing that is wrong with a configuration.
type fault struct {
	check.Finding     // Pointer is a path such as apps[0].icons[1].src
	line          int // 0 when there is none
}

// faultList is an error of several lines.
type faultList []fault

func (l faultList) Error() string {
	lines := make([]string, len(l))
	for i, f := range l {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

func (l faultList) addTo(s *check.Section) {
	for _, f := range l {
		s.Findings = append(s.Findings, f.Finding)
	}
}

// readConfig reads a configuration file that flag names ("" for an argument).
// Faults of its form wait for publish, unless nothing of it can be read: then
// the error is a faultList.
func readConfig(flag, name string) (*configFile, error) {
	data, err := readLimited(name, maxConfig)
	if err != nil {
		return nil, fileError(flag, name, err)
	}
	return parseConfig(name, filepath.Dir(name), data)
}

func parseConfig(name, dir string, data []byte) (*configFile, error) {
	c := &configFile{name: name, dir: dir, data: data}
	var err error
	if c.tree, err = parseYAML(data); err != nil {
		return nil, faultList{c.yamlFault(err)}
	}
	form := kinds{name: name}
	for _, doc := range c.tree.Docs {
		if doc.Body == nil || !form.fits(doc.Body, reflect.TypeFor[settings](), "", "") {
			continue
		}
		if err := yaml.NodeToValue(doc.Body, &c.settings); err != nil {
			return nil, append(form.faults, c.yamlFault(err))
		}
	}
	c.faults, c.spoiled = form.faults, form.spoiled
	c.checkTuning()
	if c.settings.Proxy != nil {
		if len(c.settings.Proxy.Trusted) == 0 {
			c.faults = append(c.faults, c.fault("proxy.trusted", "name the proxy: an address or a network, for instance 10.0.0.0/8"))
		}
		for i, t := range c.settings.Proxy.Trusted {
			p, err := parsePrefix(t)
			if err != nil {
				c.faults = append(c.faults, c.fault(fmt.Sprintf("proxy.trusted[%d]", i), fmt.Sprintf("%q is no address or network", t)))
				continue
			}
			c.trusted = append(c.trusted, p)
		}
	}
	return c, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// fault is a fault at a path such as "apps[0].icons[1].src".
func (c *configFile) fault(path, message string) fault {
	f := fault{Finding: check.Finding{Level: check.Fault, Where: c.name, Pointer: path, Message: message}}
	if line := c.line(path); line > 0 {
		f.Where, f.line = c.name+":"+strconv.Itoa(line), line
	}
	return f
}

var lastStep = regexp.MustCompile(`(\.[^.\[]+|\[\d+\])$`)

// line finds the line of a path, or of the nearest thing around it.
func (c *configFile) line(path string) int {
	if c.tree == nil {
		return 0
	}
	for p := "." + path; p != ""; {
		if query, err := yaml.PathString("$" + p); err == nil {
			if node, err := query.FilterFile(c.tree); err == nil && node != nil && node.GetToken() != nil {
				return startLine(node)
			}
		}
		cut := lastStep.FindStringIndex(p)
		if cut == nil {
			return 0
		}
		p = p[:cut[0]]
	}
	return 0
}

// startLine is the line of a node's first token; a mapping's own token is its
// first colon.
func startLine(node ast.Node) int {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		node = m.Values[0]
	}
	if v, ok := node.(*ast.MappingValueNode); ok {
		node = v.Key
	}
	return node.GetToken().Position.Line
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: write 2026-11-30 or 2026-11-30T09:00:00Z", s)
}

// servedHere are the apps that are not only listed.
func (s *settings) servedHere() []int {
	var index []int
	for i := range s.Apps {
		if s.Apps[i].Hosted == nil {
			index = append(index, i)
		}
	}
	return slices.Clip(index)
}
