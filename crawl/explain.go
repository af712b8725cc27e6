package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/robots"
)

// Explanation says why an address is, or is not, in the index. All texts in it
// may hold what strangers wrote: show them as plain text (see Plain).
type Explanation struct {
	URL      string // normal form of what was asked about
	Sentence string // what is so
	Advice   string // what can be done about it, a clause; "" when Sentence says all
	Kind     index.Kind
	Entry    *index.Entry // nil: never in the index
	Doc      *index.Doc   // nil: not in the frontier
	Host     *index.Host  // nil: unknown
	Outcomes []index.Outcome
	Related  []Related // documents that the judgement rests on, or cards that a catalog lists; at most 20
	Apps     []App     // apps in the index that the address is the page or a catalog of; at most 20
	Next     time.Time // next visit; zero: none, and none is told of
}

// Related is another document, in one line.
type Related struct {
	URL      string
	Code     index.Code // "" when it was not visited yet
	Sentence string
}

// App is an app in the index, as seen from its page or catalog.
type App struct {
	Name    string // what people call it
	CardURL string
	State   index.State
	Page    bool // the address is the page that its card names; else a catalog that proves it
}

const maxRelated = 20

// Explain tells what a store knows about an address: a domain, or the address
// of a page, catalog or card. The error is that of AddSource for an input that
// is no address, else the store's.
//
// For an address that is no card it looks through all entries for the apps that
// belong to it, which takes seconds in an index of a million.
func Explain(ctx context.Context, s index.Store, input string) (*Explanation, error) {
	asked, err := AddSource(input)
	if err != nil {
		return nil, err
	}
	x := &Explanation{URL: asked.URL}
	if x.Entry, err = found(s.ByCard(ctx, x.URL)); err != nil {
		return nil, err
	}
	if x.Doc, err = found(s.Doc(ctx, x.URL)); err != nil {
		return nil, err
	}
	if x.Host, err = found(s.Host(ctx, hostOf(x.URL))); err != nil {
		return nil, err
	}
	if x.Outcomes, err = s.Outcomes(ctx, x.URL, index.KeepOutcomes); err != nil {
		return nil, err
	}
	if x.Doc != nil {
		x.Kind, x.Next = x.Doc.Kind, x.Doc.NextAt
		if x.Host != nil && x.Host.NotBefore.After(x.Next) {
			x.Next = x.Host.NotBefore
		}
		if err := x.relate(ctx, s); err != nil {
			return nil, err
		}
	}
	if x.Entry == nil && x.Kind != index.CardDoc {
		if err := x.belong(ctx, s); err != nil {
			return nil, err
		}
	}
	x.say()
	return x, nil
}

// Indexed reports whether readers of the index find what was asked about: the
// card itself, or an app whose page or catalog it is.
func (x *Explanation) Indexed() bool {
	return x.Entry != nil && x.Entry.State.Searchable() || len(x.Apps) > 0
}

func found[T any](v *T, err error) (*T, error) {
	if errors.Is(err, index.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

// restsOnIt is what a judgement says without having looked for such entries.
const restsOnIt = " Entries that rest on it are kept, marked as stale."

func (x *Explanation) say() {
	switch {
	case len(x.Outcomes) > 0:
		x.sayOutcome(&x.Outcomes[0])
	case len(x.Apps) > 0:
		a, what := x.Apps[0], "The catalog"
		if a.Page {
			what = "The page"
		}
		x.Sentence = fmt.Sprintf("%s of %s, which is in the index: %s", what, a.Name, a.CardURL)
	case x.Doc != nil:
		x.Sentence = fmt.Sprintf("It is known since %s and was not visited yet.", stamp(x.Doc.FirstSeen))
	case x.Entry != nil:
		x.Sentence = fmt.Sprintf("Its entry is %s (%s), and it is not visited any more.", x.Entry.State, x.Entry.Reason)
	default:
		x.Sentence = "It is not known here: nobody has submitted it, and no catalog that was read lists it."
	}
}

func (x *Explanation) sayOutcome(o *index.Outcome) {
	var rests bool
	x.Sentence, rests = strings.CutSuffix(o.Sentence, restsOnIt)
	if what, advice := unread(o); what != "" {
		x.Sentence, x.Advice = upper(what)+".", advice
		// Where the entry is, if there is one, comes first.
		if standing, _, ok := strings.Cut(o.Sentence, ": "); ok && x.Entry != nil {
			x.Sentence = standing + ": " + what + "."
		}
	} else if o.Code == index.OutcomeGone && x.Kind == index.CatalogDoc {
		x.Advice = "its owner must publish a catalog there; if the app names another one, give the address of its page or card"
	}
	if rests && len(x.Apps) > 0 {
		x.Sentence += restsOnIt
	}
}

// unread says in one clause why the document of an outcome could not be read,
// and in another what can be done, as far as the host is what failed. Else both
// are empty, and the outcome's own sentence is the shortest.
func unread(o *index.Outcome) (what, advice string) {
	if o.Code != index.OutcomeUnreachable && o.Code != index.OutcomeStale && o.Code != index.OutcomeHidden {
		return "", ""
	}
	steps := slices.DeleteFunc(slices.Clone(o.Steps), func(s index.Step) bool { return s.What == "judge" })
	if len(steps) == 0 {
		return "", ""
	}
	last := steps[len(steps)-1]
	if last.What == "robots" && last.Result == string(robots.Unread) {
		if len(steps) > 1 && steps[len(steps)-2].What == "robots" {
			if what, advice = hostFault(&steps[len(steps)-2]); what != "" {
				return what, advice
			}
		}
		what, advice, _ = strings.Cut(strings.TrimPrefix(last.Detail, "robots.txt could not be read: "), "; ")
		if rest, ok := strings.CutPrefix(what, "robots.txt "); ok {
			what = "the robots.txt of " + hostOf(last.URL) + " " + rest
		}
		if advice == "" {
			what, advice = what+", and without its rules nothing is fetched there", "its owner must answer with the file, or with status 404 if there is none"
		}
		return what, advice
	}
	if last.What == "fetch" {
		return hostFault(&last)
	}
	return "", ""
}

// hostFault puts a request without an answer into words.
func hostFault(s *index.Step) (what, advice string) {
	host := hostOf(s.URL)
	switch discovery.Kind(s.Result) { //nolint:exhaustive // the others are faults of the answer
	case discovery.DNS:
		return "the name " + host + " cannot be looked up", "check its spelling"
	case discovery.Connect:
		return "no connection to " + host + " could be made, or it broke", "its owner must see to it that the server runs and can be reached"
	case discovery.TLS:
		what = "no secure connection to " + host + " could be made"
		if s.Detail != "" {
			what += ": " + s.Detail
		}
		return what, "its owner must repair the certificate or the server's settings"
	case discovery.Timeout:
		return host + " did not answer in time", "its owner must make it faster"
	}
	return "", ""
}

// Short is the reason of an outcome for a line of a log: without the steps, and
// without what can be done about it where that is known apart.
func Short(o *index.Outcome) string {
	if what, _ := unread(o); what != "" {
		return what
	}
	return short(strings.TrimSuffix(o.Sentence, restsOnIt))
}

func (x *Explanation) relate(ctx context.Context, s index.Store) error {
	urls := x.Doc.Needs
	if x.Kind == index.CatalogDoc && x.Doc.Body != nil {
		if c, err := catalog.Parse(x.Doc.Body, x.Doc.FinalURL); err == nil {
			for e := range c.Cards() {
				urls = append(urls, e.URL)
			}
		}
	}
	for _, url := range urls[:min(len(urls), maxRelated)] {
		r := Related{URL: url, Sentence: "not visited yet"}
		last, err := s.Outcomes(ctx, url, 1)
		if err != nil {
			return err
		}
		if len(last) > 0 {
			r.Code, r.Sentence = last[0].Code, last[0].Sentence
		}
		x.Related = append(x.Related, r)
	}
	return nil
}

// belong looks for the apps whose page or catalog the address is.
func (x *Explanation) belong(ctx context.Context, s index.Store) error {
	_, err := s.Snapshot(ctx, func(e *index.Entry) error {
		if len(x.Apps) == maxRelated {
			return nil
		}
		a := App{Name: e.DisplayName, CardURL: e.CardURL, State: e.State}
		c, err := card.Parse(e.Document)
		if err == nil {
			if u, err := weburl.Parse(c.WebsiteURL); err == nil {
				a.Page = u.String() == x.URL
			}
			if a.Name == "" {
				a.Name = c.Title
			}
		}
		if a.Name == "" {
			a.Name = e.Name
		}
		ev := e.Evidence
		if a.Page || ev != nil && (ev.CatalogURL == x.URL || slices.Contains(ev.Chain, x.URL)) {
			x.Apps = append(x.Apps, a)
		}
		return nil
	})
	return err
}

// WriteTo writes the explanation for a terminal: one sentence and what can be
// done, then the trace of the last visit, what it rests on, earlier outcomes
// and the next visit. Times are local.
func (x *Explanation) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%s\n", Plain(x.URL), Plain(x.Sentence))
	told := false
	if x.Advice != "" {
		b.WriteString(Plain(upper(x.Advice)))
		if told = x.Next.After(time.Now()); told {
			b.WriteString("; the next try is at " + stamp(x.Next))
		}
		b.WriteString(".\n")
	}
	if x.Entry != nil {
		fmt.Fprintf(&b, "\nentry     %s", x.Entry.State)
		if x.Entry.Reason != "" {
			fmt.Fprintf(&b, " (%s)", x.Entry.Reason)
		}
		if x.Entry.Evidence != nil {
			fmt.Fprintf(&b, ", listed by %s (%s)", Plain(x.Entry.Evidence.CatalogURL), kindWords(x.Entry.Evidence.Kind))
		}
		b.WriteByte('\n')
	}
	x.writeVisits(&b)
	x.writeOthers(&b)
	switch {
	case told || x.Doc != nil && x.Next.IsZero(): // nothing to add
	case x.Doc != nil && x.Next.After(time.Now()):
		fmt.Fprintf(&b, "\nnext visit %s\n", stamp(x.Next))
	case x.Doc != nil:
		fmt.Fprintf(&b, "\nnext visit due since %s: the crawler of this database makes it when it runs\n", stamp(x.Next))
	case len(x.Outcomes) > 0:
		b.WriteString("\nnext visit none\n")
	}
	return b.WriteTo(w)
}

func (x *Explanation) writeVisits(b *bytes.Buffer) {
	if len(x.Outcomes) == 0 {
		return
	}
	last := &x.Outcomes[0]
	fmt.Fprintf(b, "\nlast visit %s: %s\n", stamp(last.At), last.Code)
	told := false // that robots.txt could not be read
	for i := range last.Steps {
		s := last.Steps[i]
		if s.What == "robots" && s.Result == string(robots.Unread) {
			told = true
			if i > 0 && last.Steps[i-1].What == "robots" {
				s.Detail = "without its rules nothing is fetched" // the line above says why
			}
		}
		writeStep(b, &s)
	}
	if x.Host != nil && x.Host.Robots.Unreachable && !told {
		fmt.Fprintf(b, "\nrobots.txt of %s: %s (tried %s)\n", Plain(x.Host.Name), Plain(x.Host.Robots.Problem), stamp(x.Host.Robots.TriedAt))
	}
	if len(x.Outcomes) > 1 {
		b.WriteString("\nearlier\n")
		for _, o := range x.Outcomes[1:] {
			fmt.Fprintf(b, "  %s  %s\n", stamp(o.At), o.Code)
		}
	}
}

func (x *Explanation) writeOthers(b *bytes.Buffer) {
	if len(x.Related) > 0 {
		b.WriteString("\nsee also\n")
		for _, r := range x.Related {
			fmt.Fprintf(b, "  %s: %s\n", Plain(r.URL), Plain(r.Sentence))
		}
	}
	var lines []string
	for _, a := range x.Apps {
		if !slices.ContainsFunc(x.Related, func(r Related) bool { return r.URL == a.CardURL }) && !strings.Contains(x.Sentence, a.CardURL) {
			lines = append(lines, fmt.Sprintf("  %s: %s (%s)\n", Plain(a.CardURL), Plain(a.Name), a.State))
		}
	}
	if lines != nil {
		fmt.Fprintf(b, "\nin the index\n%s", strings.Join(lines, ""))
	}
}

func writeStep(b *bytes.Buffer, s *index.Step) {
	line := fmt.Sprintf("  %s %-9s %-12s %s", s.At.Local().Format(time.TimeOnly), s.What, s.Result, Plain(s.URL))
	if s.Took > 0 {
		line += " " + s.Took.Round(time.Millisecond).String()
	}
	if s.Detail != "" {
		line += " (" + Plain(s.Detail) + ")"
	}
	fmt.Fprintln(b, strings.TrimRight(line, " "))
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// Plain makes text of strangers harmless for a terminal and keeps it on its
// line: control characters and marks that change the direction of writing or
// cannot be seen become U+FFFD, as does what is no UTF-8.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < 0x20, 0x7f <= r && r < 0xa0,
			r == 0x061c, 0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f,
			r == 0xfeff, 0xe0000 <= r && r <= 0xe007f:
			return '\uFFFD'
		}
		return r
	}, s)
}
