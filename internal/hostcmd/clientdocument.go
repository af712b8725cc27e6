package hostcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openbot-build/openbot-go/oauth/cimd"
	"github.com/openbot-build/openbot-go/publicnet"
)

type clientDocumentCommand struct {
	ID       string   `required:"" name:"id" placeholder:"URL" help:"The https address where the document is, or will be, published. It is the host's client_id."`
	Name     string   `placeholder:"NAME" help:"The host's name, as users are shown it."`
	Redirect []string `sep:"none" placeholder:"URL" help:"Where users come back to after signing in: https, or http on loopback. May be repeated; without it http://127.0.0.1/callback and http://[::1]/callback, for a host on the user's own computer."`
	Check    bool     `help:"Read the published document back and say whether authorization servers will take it."`
}

// Help is the manual's page on client-document.
func (*clientDocumentCommand) Help() string {
	return `A Client ID Metadata Document is a small JSON file on a web server of yours. Its address is the client_id of your host at every authorization server that supports such documents, so that there is nothing to register. Write it once, publish it unchanged at exactly that address, and keep it there: a moved document is another client.

  host client-document --id https://host.example.com/client.json --name "My Host" > client.json
  host client-document --id https://host.example.com/client.json --name "My Host" --redirect https://host.example.com/callback

Write loopback redirects without a port: servers then take any. The document goes to standard output.

--check reads the published document as an authorization server does: over the public Internet, without following redirects, at most 5 KB of a JSON media type. Faults (✗) make servers refuse it, and the exit status 1. Advice (!) does not.

  host client-document --id https://host.example.com/client.json --check`
}

var defaultRedirects = []string{"http://127.0.0.1/callback", "http://[::1]/callback"}

func (c *clientDocumentCommand) run(ctx context.Context, env *Env) error {
	if c.Check {
		if err := cimd.CheckID(c.ID); err != nil {
			return &badCall{"--id: " + err.Error()}
		}
		if c.Name != "" || len(c.Redirect) > 0 {
			return &badCall{"--check reads what is published: --name and --redirect are for writing"}
		}
		return c.check(ctx, env)
	}
	if c.Name == "" {
		return &badCall{"client-document needs --name, which users are shown"}
	}
	redirects := c.Redirect
	if len(redirects) == 0 {
		redirects = defaultRedirects
	}
	// All that the document says is from the command line, and so is each fault.
	d, err := cimd.New(c.ID, c.Name, redirects...)
	if err != nil {
		return &badCall{err.Error()}
	}
	network, err := c.network(env)
	if err != nil {
		return err
	}
	if err := network.CheckURL(c.ID); err != nil {
		return &badCall{fmt.Sprintf("--id %s: authorization servers cannot read it there: %v", c.ID, err)}
	}
	body, err := d.Encode()
	if err != nil {
		return &badCall{err.Error()}
	}
	if _, err := env.Stdout.Write(body); err != nil {
		return fmt.Errorf("write client document: %w", err)
	}
	return nil
}

func (c *clientDocumentCommand) check(ctx context.Context, env *Env) error {
	network, err := c.network(env)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	d, err := cimd.NewResolver(network).Resolve(ctx, c.ID)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		fmt.Fprintf(&out, "✗ authorization servers will not take it\n")
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(&out, "  %s\n", strings.TrimSuffix(line, "\n"))
		}
		if hint := hint(err); hint != "" {
			fmt.Fprintf(&out, "  %s\n", hint)
		}
	default:
		fmt.Fprintf(&out, "✓ authorization servers will take %s\n", c.ID)
		fmt.Fprintf(&out, "· name: %q\n", d.ClientName)
		for _, uri := range d.RedirectURIs {
			fmt.Fprintf(&out, "· redirect: %s\n", uri)
		}
		for _, a := range advice(d) {
			fmt.Fprintf(&out, "! %s\n", a)
		}
	}
	if _, err := env.Stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print verdict: %w", err)
	}
	if err != nil {
		return errFaults
	}
	return nil
}

// network reaches the document. The user has named its port, so it is dialled.
func (c *clientDocumentCommand) network(env *Env) (*publicnet.Network, error) {
	o := &publicnet.Options{UserAgent: "openbot-host/" + version() + " (+https://github.com/openbot-build/openbot-go)", Below: env.Below}
	if port, ok := portOf(c.ID); ok {
		o.Ports = []int{port}
	}
	return publicnet.New(o)
}

// portOf gives the port of an address when it is another one than 443.
func portOf(address string) (int, bool) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, false
	}
	port, err := strconv.Atoi(u.Port())
	return port, err == nil && port > 0 && port != 443 && port < 1<<16
}

// hint is what to do about a document that could not be read.
func hint(err error) string {
	switch {
	case errors.Is(err, publicnet.ErrTooLarge):
		return "leave out what servers do not need, pictures above all"
	case errors.Is(err, publicnet.ErrNotPublic):
		return "servers read documents on the public Internet only: publish it on a host that everybody can reach"
	case errors.Is(err, publicnet.ErrDNS), errors.Is(err, publicnet.ErrConnect), errors.Is(err, publicnet.ErrTLS), errors.Is(err, publicnet.ErrTimeout):
		return "publish the document first, then check again"
	}
	return ""
}

// advice is what is legal and works badly somewhere.
func advice(d *cimd.Document) (list []string) {
	if strings.HasSuffix(d.ClientID, "/") && strings.Count(d.ClientID, "/") == 3 {
		list = append(list, "the document is the root of its host: give it a path of its own")
	}
	if strings.Contains(d.ClientID, "?") {
		list = append(list, "the address has a query, which some servers refuse")
	}
	if port, ok := portOf(d.ClientID); ok {
		list = append(list, fmt.Sprintf("the address has port %d, and many servers read from 443 only", port))
	}
	if !slices.Contains(d.GrantTypes, "refresh_token") {
		list = append(list, `grant_types has no "refresh_token": users sign in again whenever a token expires`)
	}
	local := slices.ContainsFunc(d.RedirectURIs, func(uri string) bool { return strings.HasPrefix(uri, "http://") })
	if local && d.ApplicationType != "native" {
		list = append(list, `application_type is not "native": some servers then insist on the port of a loopback redirect`)
	}
	if d.TokenEndpointAuthMethod == "" {
		list = append(list, `token_endpoint_auth_method is missing, write "none": some servers read a missing one as a shared secret`)
	}
	return list
}
