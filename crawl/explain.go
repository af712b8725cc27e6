package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
)

// Explanation says why an address is, or is not, in the index. All texts in it
// may hold what strangers wrote: show them as plain text.
type Explanation struct {
	URL      string // normal form of what was asked about
	Sentence string
	Kind     index.Kind
	Entry    *index.Entry // nil: never in the index
	Doc      *index.Doc   // nil: not in the frontier
	Host     *index.Host  // nil: unknown
	Outcomes []index.Outcome
	Related  []Related // documents that the judgement rests on, or cards that a catalog lists
}

// Related is another document, in one line.
type Related struct {
	URL      string
	Code     index.Code // "" when it was not visited yet
	Sentence string
}

const maxRelated = 20

// Explain tells what a store knows about an address: a domain, or the address
// of a page, catalog or card. The error is that of AddSource for an input that
// is no address, else the store's.
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
		x.Kind = x.Doc.Kind
		if err := x.relate(ctx, s); err != nil {
			return nil, err
		}
	}
	x.Sentence = x.say(input)
	return x, nil
}

func found[T any](v *T, err error) (*T, error) {
	if errors.Is(err, index.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

func (x *Explanation) say(input string) string {
	switch {
	case len(x.Outcomes) > 0:
		return x.Outcomes[0].Sentence
	case x.Doc != nil:
		return fmt.Sprintf("It is known since %s and was not visited yet; its visit is due at %s.", stamp(x.Doc.FirstSeen), stamp(x.Doc.NextAt))
	case x.Entry != nil:
		return fmt.Sprintf("Its entry is %s (%s), and it is not visited any more.", x.Entry.State, x.Entry.Reason)
	}
	return "It is not known here: nobody has submitted it, and no catalog that was read lists it. Add it with: crawler add " + strings.TrimSpace(input)
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

// WriteTo writes the explanation for a terminal: one sentence, then the trace
// of the last visit, what it rests on, earlier outcomes and the next visit.
func (x *Explanation) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%s\n", plain(x.URL), plain(x.Sentence))
	if x.Entry != nil {
		fmt.Fprintf(&b, "\nentry     %s", x.Entry.State)
		if x.Entry.Reason != "" {
			fmt.Fprintf(&b, " (%s)", x.Entry.Reason)
		}
		if x.Entry.Evidence != nil {
			fmt.Fprintf(&b, ", listed by %s (%s)", plain(x.Entry.Evidence.CatalogURL), kindWords(x.Entry.Evidence.Kind))
		}
		b.WriteByte('\n')
	}
	if len(x.Outcomes) > 0 {
		last := &x.Outcomes[0]
		fmt.Fprintf(&b, "\nlast visit %s: %s\n", stamp(last.At), last.Code)
		for i := range last.Steps {
			writeStep(&b, &last.Steps[i])
		}
	}
	if len(x.Related) > 0 {
		b.WriteString("\nsee also\n")
		for _, r := range x.Related {
			fmt.Fprintf(&b, "  %s: %s\n", plain(r.URL), plain(r.Sentence))
		}
	}
	if len(x.Outcomes) > 1 {
		b.WriteString("\nearlier\n")
		for _, o := range x.Outcomes[1:] {
			fmt.Fprintf(&b, "  %s  %-11s %s\n", stamp(o.At), o.Code, plain(o.Sentence))
		}
	}
	if x.Host != nil && x.Host.Robots.Unreachable {
		fmt.Fprintf(&b, "\nrobots.txt of %s: %s (tried %s)\n", x.Host.Name, plain(x.Host.Robots.Problem), stamp(x.Host.Robots.TriedAt))
	}
	if x.Doc != nil {
		next := x.Doc.NextAt
		if x.Host != nil && x.Host.NotBefore.After(next) {
			next = x.Host.NotBefore
		}
		fmt.Fprintf(&b, "\nnext visit %s\n", stamp(next))
	} else if len(x.Outcomes) > 0 {
		fmt.Fprintf(&b, "\nnext visit none; add it again with: crawler add %s\n", plain(x.URL))
	}
	return b.WriteTo(w)
}

func writeStep(b *bytes.Buffer, s *index.Step) {
	line := fmt.Sprintf("  %s %-9s %-12s %s", s.At.UTC().Format(time.TimeOnly), s.What, s.Result, plain(s.URL))
	if s.Took > 0 {
		line += " " + s.Took.Round(time.Millisecond).String()
	}
	if s.Detail != "" {
		line += " (" + plain(s.Detail) + ")"
	}
	fmt.Fprintln(b, strings.TrimRight(line, " "))
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// plain makes text of strangers harmless for a terminal: no control
// characters, no marks that change the direction of writing.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < 0x20, 0x7f <= r && r < 0xa0,
			r == 0x061c, 0x200b <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f,
			r == 0xfeff, 0xe0000 <= r && r <= 0xe007f:
			return '\uFFFD'
		}
		return r
	}, s)
}
