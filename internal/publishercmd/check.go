package publishercmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/openbot-build/openbot-go/publisher/check"
)

type checkCommand struct {
	Target    string `arg:"" optional:"" placeholder:"TARGET" help:"A file (- reads standard input), or the address of a domain, app page, catalog or card."`
	Config    string `placeholder:"FILE" help:"Check a configuration file instead."`
	ConnectTo string `name:"connect-to" placeholder:"HOST:443:ADDR:PORT" help:"Reach HOST at ADDR:PORT, for an app that is not deployed yet. All other names are reached as usual."`
	CA        string `name:"ca" placeholder:"FILE" help:"Certificate authority in PEM that signed HOST's certificate. It counts for HOST only."`
	JSON      bool   `name:"json" help:"Print the report as JSON."`
	Offline   bool   `help:"Judge a configuration without its upstreams and issuers: start no command and ask no address."`
}

// Help is the manual's page on check.
func (*checkCommand) Help() string {
	return `A file is judged by what it holds: a catalog, a card, or with a .yaml name a configuration. The upstreams of a configuration are started or called once, to see what hosts will, and the metadata of its issuers is read; --offline leaves that out.

An address is read as a host reads it: the documents behind it, their headers, what a browser's preflight and a conditional request get, and whether a crawler may read them (robots.txt) and can confirm the publisher. Each app's endpoint is asked server/discover, without settings or sign-in, and its name, version and supportedVersions are compared with the card; then it is asked for its lists of tools, prompts and resources, and once as a page of a foreign origin would ask. If it wants a sign-in, the challenge is followed to the metadata of the authorization server, and server/discover is asked with a made-up token, which has to be refused, and as a browser's preflight, which must need none. No tool is run, no resource read, nobody signs in. What is not asked: pictures, and anything that needs settings.

Each line is a verdict: ✓ kept, ! works and could be better, ✗ broken, with what to do about it and the number of the rule in brackets. Lines with · only tell. The rules are summed up at the end.

A fault breaks a rule and makes the exit status 1. Advice does not. --json prints the same for scripts: sections with findings (level, rule, pointer, message), rules, faults, advice.

  publisher check card.json
  publisher check apps.example.com
  publisher check https://apps.example.com/apps/calendar
  publisher check https://apps.example.com/ --connect-to apps.example.com:443:127.0.0.1:8443 --ca ca.pem`
}

// maxDocument is what a host reads of a document (D12).
const maxDocument = 1 << 20

func (c *checkCommand) run(ctx context.Context, env *Env) error {
	if c.Target != "" && c.Config == env.Getenv(envName("config")) {
		c.Config = "" // the command line wins
	}
	if (c.Target == "") == (c.Config == "") {
		return badCallf("check takes one thing: a file, an address, or --config FILE")
	}
	if c.ConnectTo == "" && c.CA != "" {
		return badCallf("--ca needs --connect-to: it counts for that one name only")
	}
	var rep *check.Report
	var err error
	switch name, isFile := c.file(); {
	case c.Config != "", isFile && isConfigName(name):
		flag := ""
		if c.Config != "" {
			flag = "--config"
		}
		var config *configFile
		config, err = readConfig(flag, name)
		rep, err = c.checkConfig(ctx, env, name, config, err)
	case isFile:
		rep, err = c.checkFile(ctx, name, env)
	default:
		rep, err = c.checkAddress(ctx, env)
	}
	if err != nil {
		return err
	}
	if err := printReport(env.Stdout, rep, c.JSON); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	if rep.Count(check.Fault) > 0 {
		return errFaults
	}
	return nil
}

// file tells whether the target is a file, by form first: a typing error in a
// file's name must not become a lookup.
func (c *checkCommand) file() (name string, ok bool) {
	t := c.Target
	switch {
	case c.Config != "":
		return c.Config, true
	case t == "-":
		return t, true
	case strings.Contains(t, "://"):
		return "", false
	case slices.Contains([]string{".json", ".yaml", ".yml"}, strings.ToLower(filepath.Ext(t))), strings.ContainsAny(t, `/\`):
		return t, true
	}
	_, err := os.Stat(t)
	return t, err == nil
}

func isConfigName(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// checkFile judges a catalog or a card by its members.
func (c *checkCommand) checkFile(ctx context.Context, name string, env *Env) (*check.Report, error) {
	var data []byte
	var err error
	if name == "-" {
		name = "standard input"
		data, err = readStdin(ctx, env)
	} else {
		data, err = readLimited(name, maxDocument)
	}
	if err != nil {
		return nil, fileError("", name, err)
	}
	rep := &check.Report{Target: name}
	if start := bytes.TrimSpace(data); len(start) > 0 && start[0] != '{' && start[0] != '[' && !json.Valid(data) {
		if tree, err := parseYAML(data); err == nil && len(tree.Docs) > 0 && isMapping(tree.Docs[0].Body) {
			config, err := parseConfig(name, ".", data)
			return c.checkConfig(ctx, env, name, config, err)
		}
		rep.Section("file", name).Findings = []check.Finding{{Level: check.Fault, Message: "is neither JSON (a catalog or a card) nor YAML (a configuration)"}}
		return rep, nil
	}
	check.Document(rep, name, data)
	return rep, nil
}

func isMapping(node ast.Node) bool {
	_, ok := mapping(node)
	return ok
}

// readStdin does not keep a person waiting who stops the command.
func readStdin(ctx context.Context, env *Env) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := readAll(env.Stdin, maxDocument)
		read <- result{data, err}
	}()
	select {
	case r := <-read:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *checkCommand) checkAddress(ctx context.Context, env *Env) (*check.Report, error) {
	client, err := c.client(env)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	if host, own := ownMachine(c.Target); own {
		rep := &check.Report{Target: c.Target}
		rep.Section("address", c.Target).Findings = []check.Finding{{Level: check.Fault, Message: host + " is this machine, which nobody else reaches under that name: " +
			"check the configuration with publisher check --config FILE, or the running server by its public name over TLS with --connect-to HOST:443:ADDR:PORT"}}
		return rep, nil
	}
	rep, err := check.Address(ctx, client, c.Target)
	if near, ok := client.Transport.(*split); ok && err == nil && !near.used.Load() {
		s := rep.Section("address", c.Target)
		s.Findings = append(s.Findings, check.Finding{Level: check.Advice, Message: "--connect-to names " + near.one.host +
			", and nothing was asked there: name the host of the address that you check"})
	}
	return rep, err
}

// ownMachine reports whether a target is on loopback.
func ownMachine(target string) (host string, own bool) {
	if !strings.Contains(target, "://") {
		target = "https://" + target
	}
	u, err := url.Parse(target)
	if err != nil {
		return "", false
	}
	host = strings.ToLower(u.Hostname())
	ip := net.ParseIP(host)
	return host, host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
