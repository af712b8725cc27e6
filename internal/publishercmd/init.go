package publishercmd

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher"
)

type initCommand struct {
	Out    string `default:"publisher.yaml" placeholder:"FILE" help:"File to write, publisher.yaml unless set; - is standard output."`
	Origin string `default:"https://apps.example.com" placeholder:"URL" help:"Public origin of the apps, https://apps.example.com unless set."`
	Force  bool   `help:"Write over a file that exists."`
}

// Help is the manual's page on init.
func (*initCommand) Help() string {
	return `The file works as it is: publisher check finds no fault in it and publisher serve runs it on loopback, with a built-in server that echoes. Every member that can be set is in it, with a comment.`
}

//go:embed publisher.yaml.tmpl
var configTemplate string

func (c *initCommand) run(_ context.Context, env *Env) error {
	// What check would refuse in the file is not written into it.
	_, err := publisher.New(&publisher.Config{Origin: c.Origin})
	if f, ok := errors.AsType[*publisher.Error](err); ok && f.Field == "Origin" {
		return badCallf("--origin: %v", f.Err)
	}
	u, err := weburl.Parse(c.Origin)
	if err != nil {
		return badCallf("--origin: %v", err)
	}
	t, err := template.New("config").Parse(configTemplate)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, map[string]string{"Origin": u.Origin(), "Host": u.Host(), "Namespace": namespace(u.Host())}); err != nil {
		return err
	}
	if c.Out == "-" {
		_, err := env.Stdout.Write(out.Bytes())
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(c.Out, flags, 0o644) //nolint:gosec // nothing in it is secret
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write configuration: %s exists; use --force to write over it", c.Out)
	}
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	_, err = f.Write(out.Bytes())
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	fmt.Fprintf(env.Stdout, "wrote %[1]s\n\nnext:\n  publisher check --config %[1]s\n  publisher serve --config %[1]s\n", c.Out)
	return nil
}

// namespace is the start of an app's name: the domain that its publisher
// registered, the other way round. shop.example.co.uk gives uk.co.example.
func namespace(host string) string {
	labels := strings.Split(publicnet.RegistrableDomain(host), ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}
