package publishercmd

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher"
)

type initCommand struct {
	Out    string        `default:"publisher.yaml" placeholder:"FILE" help:"File to write, publisher.yaml unless set; - is standard output."`
	Origin string        `default:"https://apps.example.com" placeholder:"URL" help:"Public origin of the apps, https://apps.example.com unless set."`
	Force  bool          `help:"Write over a file that exists."`
	From   string        `placeholder:"COMMAND|URL" help:"An MCP server that exists: the command line that starts it, in one pair of quotes, or its http or https address."`
	Slug   string        `placeholder:"NAME" help:"With --from: short name for the app's addresses. It is made of the server's name unless set."`
	Env    []string      `sep:"none" placeholder:"NAME=VALUE" help:"With --from COMMAND: a variable for the command, again for each. Write a secret as a variable of yours in single quotes, 'API_KEY=$${API_KEY}': then it is not in the file."`
	Wait   time.Duration `default:"30s" placeholder:"TIME" help:"With --from: how long the server may take until it answers, 30s unless set; a first start that installs something may take minutes. A refused connection is not waited for."`
	Header []string      `sep:"none" placeholder:"NAME: VALUE" help:"With --from URL: a header for the server, again for each. Write a secret as in 'Authorization: Bearer $${TOKEN}'."`
}

// Help is the manual's page on init.
func (*initCommand) Help() string {
	return `The file works as it is: publisher check finds no fault in it and publisher serve runs it on loopback. Every member that can be set is in it, with a comment.

Without --from the app is a built-in server that echoes. With --from the server is started or called once, looked at, and stopped again; no tool of it is run. What it says of itself stands in the file, to be changed, with its tools and what is corrected about them as comments.

  publisher init --origin https://apps.example.org
  publisher init --from 'npx -y @modelcontextprotocol/server-everything'
  publisher init --from https://mcp.example.net/mcp --header 'Authorization: Bearer ${TOKEN}'`
}

//go:embed publisher.yaml.tmpl
var configTemplate string

// draft is what the template is filled with.
type draft struct {
	Origin, Host, Namespace string
	Slug                    string
	From                    *looked // nil: the built-in server
}

func (c *initCommand) run(ctx context.Context, env *Env) error {
	// What check would refuse in the file is not written into it.
	_, err := publisher.New(&publisher.Config{Origin: c.Origin})
	if f, ok := errors.AsType[*publisher.Error](err); ok && f.Field == "Origin" {
		return badCallf("--origin: %v", f.Err)
	}
	u, err := weburl.Parse(c.Origin)
	if err != nil {
		return badCallf("--origin: %v", err)
	}
	if c.Wait <= 0 {
		return badCallf("--wait %v: write a time above 0, for instance 2m", c.Wait)
	}
	if c.From == "" && (c.Slug != "" || len(c.Env)+len(c.Header) > 0) {
		return badCallf("--slug, --env and --header go with --from")
	}
	if c.Out != "-" && !c.Force {
		if _, err := os.Lstat(c.Out); err == nil { // before anything is started
			return fmt.Errorf("write configuration: %s exists; use --force to write over it", c.Out)
		}
	}
	d := &draft{Origin: u.Origin(), Host: u.Host(), Namespace: namespace(u.Host()), Slug: "hello"}
	var data []byte
	if c.From == "" {
		data, err = d.write()
	} else {
		data, err = c.from(ctx, env, d)
	}
	if err != nil {
		return err
	}
	if c.Out == "-" {
		_, err := env.Stdout.Write(data)
		return err
	}
	flags, mode := os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(0o644)
	if c.Force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	secret := d.From != nil && d.From.literal != ""
	if secret {
		mode = 0o600
	}
	f, err := os.OpenFile(c.Out, flags, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write configuration: %s exists; use --force to write over it", c.Out)
	}
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	fmt.Fprintf(env.Stdout, "wrote %s\n", c.Out)
	if d.From != nil {
		fmt.Fprintf(env.Stdout, "  %s: %s, %s, %s; %s\n", plain(d.From.Impl.Name), count(len(d.From.Tools), "tool", "tools"), count(len(d.From.Prompts), "prompt", "prompts"),
			count(d.From.Resources, "resource", "resources"), count(len(d.From.Corrections), "correction", "corrections"))
	}
	if secret {
		fmt.Fprintf(env.Stdout, "\nThe value of %s stands in the file, which only you can read. To keep it out, write ${NAME} for a variable NAME.\n", d.From.literal)
	}
	fmt.Fprintf(env.Stdout, "\nnext:\n  publisher check --config %[1]s\n  publisher serve --config %[1]s\n", c.Out)
	return nil
}

// ATool is the name of a tool that the app has, to show what a scope is for.
func (d *draft) ATool() string {
	if d.From == nil {
		return "echo" // of the built-in app
	}
	for _, t := range d.From.Tools {
		return t.Name
	}
	return "a_tool"
}

// write fills the template.
func (d *draft) write() ([]byte, error) {
	t, err := template.New("config").Funcs(template.FuncMap{"q": quote, "c": comment}).Parse(configTemplate)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, d); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// quote writes a text as YAML in double quotes, which takes JSON's escapes.
func quote(s any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fmt.Sprint(s)); err != nil {
		return "", err
	}
	return escape(strings.TrimSpace(b.String()), func(r rune) bool { return r >= 0x7f && steers(r) }), nil
}

// comment fits a stranger's text on one line of comment.
func comment(s string) string { return clip(strings.Join(strings.Fields(plain(s)), " "), 200) }

// namespace is the start of an app's name: the domain that its publisher
// registered, the other way round. shop.example.co.uk gives uk.co.example.
func namespace(host string) string {
	labels := strings.Split(publicnet.RegistrableDomain(host), ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}
