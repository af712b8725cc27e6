package crawlercmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/crawl"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

type addCommand struct {
	DB    string   `name:"db" required:"" placeholder:"FILE" help:"Database; it is made if there is none."`
	Ports []int    `placeholder:"PORT" help:"Ports besides 443 that the crawler of this database may visit."`
	URL   []string `arg:"" name:"url" help:"Domain, or https address of an app page, catalog or card."`
}

// Help is the manual's page on add.
func (*addCommand) Help() string {
	return `The addresses are visited next by the crawler that uses the same database, now or when it is started. Then crawler why tells what came of them. If one of them can never be visited, none is added.

  crawler add --db index.db apps.example.com
  crawler add --db index.db https://apps.example.com/calendar https://apps.example.com/notes/card.json`
}

func (a *addCommand) run(ctx context.Context, env *Env) error {
	if err := checkPorts(a.Ports); err != nil {
		return err
	}
	docs := make([]index.NewDoc, len(a.URL))
	var faults []string
	for i, input := range a.URL {
		var err error
		if docs[i], err = source(input, a.Ports); err != nil {
			faults = append(faults, err.Error())
		}
	}
	if faults != nil {
		return badCallf("%s", strings.Join(faults, "\n"))
	}
	_, missing := os.Stat(a.DB)
	store, err := openStore(ctx, a.DB, true, nil)
	if err != nil {
		return err
	}
	capped, err := store.AddSource(ctx, time.Now(), docs...)
	if err = closed(store, err); err != nil {
		return err
	}
	if errors.Is(missing, fs.ErrNotExist) {
		fmt.Fprintf(env.Stdout, "made %s, a new index\n", a.DB)
	}
	turnedAway := make(map[string]bool)
	for _, d := range capped {
		turnedAway[d.URL] = true
	}
	for _, d := range docs {
		if !turnedAway[d.URL] {
			fmt.Fprintf(env.Stdout, "added %s\n", d.URL)
		}
	}
	if len(capped) > 0 {
		return fmt.Errorf("%s was not added: too many new addresses today; add it again tomorrow", capped[0].URL)
	}
	fmt.Fprintf(env.Stdout, "crawler why --db %s %s tells what came of it\n", shellWord(a.DB), shellWord(strings.TrimSpace(a.URL[0])))
	return nil
}

// source reads an address that a person gives, and refuses one that no crawl
// could visit, whatever the network says.
func source(input string, ports []int) (index.NewDoc, error) {
	d, err := crawl.AddSource(input)
	if err != nil {
		return d, badCallf("%v", err)
	}
	network, err := publicnet.New(&publicnet.Options{UserAgent: "unused", Ports: ports})
	if err != nil {
		return d, err
	}
	if err := network.CheckURL(d.URL); err != nil {
		return d, badCallf("%s can never be visited: %v", strings.TrimSpace(input), err)
	}
	return d, nil
}

// sourceAnyPort is source for who does not know the ports of the crawler.
func sourceAnyPort(input string) error {
	var ports []int
	if d, err := crawl.AddSource(input); err == nil {
		if u, err := weburl.Parse(d.URL); err == nil {
			ports = []int{u.Port()}
		}
	}
	_, err := source(input, ports)
	return err
}

type whyCommand struct {
	DB  string `name:"db" required:"" placeholder:"FILE" help:"Database."`
	URL string `arg:"" name:"url" help:"Domain, or https address of an app page, catalog or card."`
}

// Help is the manual's page on why.
func (*whyCommand) Help() string {
	return `It says what is so and what can be done about it, then shows the last visit: what robots.txt says, each fetch, the evidence tried, the outcome, and when the next visit is due. Times are local.

Exit status: 0 the card, or an app of that page or catalog, is in the index, be it marked as stale; 1 it is not, or the work failed; 2 the command line is wrong.

  crawler why --db index.db apps.example.com
  crawler why --db index.db https://apps.example.com/notes/card.json`
}

func (y *whyCommand) run(ctx context.Context, env *Env) error {
	if err := sourceAnyPort(y.URL); err != nil {
		return err
	}
	store, err := openStore(ctx, y.DB, false, nil)
	if err != nil {
		return err
	}
	x, err := crawl.Explain(ctx, store, y.URL)
	if err = closed(store, err); err != nil {
		return err
	}
	if _, err := x.WriteTo(env.Stdout); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if blocked := x.Entry != nil && x.Entry.State == index.Blocked; x.Doc == nil && !x.Indexed() && !blocked {
		fmt.Fprintf(env.Stdout, "\nTo have it visited: crawler add --db %s %s\n", shellWord(y.DB), shellWord(strings.TrimSpace(y.URL)))
	}
	if !x.Indexed() {
		return errNotListed
	}
	return nil
}

// operator is who answers for requests to strangers.
type operator struct {
	About   string `required:"" placeholder:"URL" help:"https address of a page that tells what this crawler does, how to refuse it and how to reach you. It is sent with each request."`
	Contact string `required:"" placeholder:"MAILBOX" help:"Mailbox that you read. It is sent with each request."`
}

// check refuses values that no crawler can be made with.
func (o *operator) check() error {
	err := (&crawl.Config{About: o.About, Contact: o.Contact}).Validate()
	if e, ok := errors.AsType[*crawl.ConfigError](err); ok {
		return badCallf("--%s: %s", strings.ToLower(e.Field), e.Message)
	}
	return err
}

// checkGiven is check where both may be left out.
func (o *operator) checkGiven() error {
	given := *o
	if given.About == "" {
		given.About = "https://example.com/"
	}
	if given.Contact == "" {
		given.Contact = "crawler@example.com"
	}
	return given.check()
}

// examples are what a manual's placeholders are made of (RFC 2606).
func isExample(host string) bool {
	for _, name := range []string{"example.com", "example.net", "example.org", "example"} {
		if host == name || strings.HasSuffix(host, "."+name) {
			return true
		}
	}
	return false
}

// examples gives the flags that still hold a manual's placeholder.
func (o *operator) examples() (flags []string) {
	if u, err := url.Parse(o.About); err == nil && isExample(strings.ToLower(u.Hostname())) {
		flags = append(flags, "--about")
	}
	if _, host, _ := strings.Cut(o.Contact, "@"); isExample(strings.ToLower(host)) {
		flags = append(flags, "--contact")
	}
	return flags
}
