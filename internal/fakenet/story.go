package fakenet

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/openbot-build/openbot-go/internal/weburl"
)

// Load adds the hosts and answers of a story and gives the sections that are
// not its own, for the test that reads the same file.
//
// A story is a txtar archive. Its own sections are
//
//	-- GET https://apps.example.com/card --   an answer; any method in capitals
//	-- DNS apps.example.com --                a lookup: addresses, or nxdomain, servfail, timeout
//	-- TLS apps.example.com --                a connection: ok, or another state of SetTLS
//	-- CONNECT apps.example.com --            a dial: ok, refused, timeout
//
// Several sections with one name are successive answers; the last one repeats.
// A host without a robots.txt answers 404 to it, as to every path that has no
// section.
//
// An answer is a body, with a head before it where one is needed: a status
// line ("404", or "301 https://www.example.com/" for a redirect with its
// Location), header lines ("ETag: "1""), and lines for what goes wrong: timeout, reset, cut, slow,
// "wait 3s", and tls-expired or tls-selfsigned, which stand for a TLS section.
// An empty line ends the head. A head of /robots.txt begins with its status
// line, because its rules look like header lines.
//
//	-- GET https://apps.example.com/card --
//	200
//	ETag: "1"
//
//	{"$schema": "..."}
func (n *Net) Load(story *txtar.Archive) (rest []txtar.File, err error) {
	answers := make(map[string][]Answer) // by method and URL
	dns := make(map[string][]DNS)
	tls := make(map[string][]string)
	connect := make(map[string][]string)
	// Hosts become known in the story's order, so that addresses are the same in
	// each run.
	for _, file := range story.Files {
		verb, subject, _ := strings.Cut(file.Name, " ")
		subject = strings.TrimSpace(subject)
		if subject == "" || verb != strings.ToUpper(verb) {
			rest = append(rest, file)
			continue
		}
		text := string(file.Data)
		switch verb {
		case "DNS":
			answer, err := parseDNS(text)
			if err != nil {
				return nil, fmt.Errorf("read section %q: %w", file.Name, err)
			}
			dns[subject] = append(dns[subject], answer)
			n.Host(subject)
		case "TLS", "CONNECT":
			word := strings.TrimSpace(text)
			n.Host(subject)
			switch verb + " " + word {
			case "TLS ok", "TLS expired", "TLS selfsigned", "TLS wrongname", "TLS tls11":
				tls[subject] = append(tls[subject], word)
			case "CONNECT ok", "CONNECT refused", "CONNECT timeout":
				connect[subject] = append(connect[subject], word)
			default:
				return nil, fmt.Errorf("read section %q: unknown word %q", file.Name, word)
			}
		default:
			u, err := weburl.Parse(subject)
			if err != nil {
				return nil, fmt.Errorf("read section %q: %w", file.Name, err)
			}
			answer, state, err := parseAnswer(u, text)
			if err != nil {
				return nil, fmt.Errorf("read section %q: %w", file.Name, err)
			}
			if state != "" {
				tls[u.Host()] = append(tls[u.Host()], state)
			}
			key := verb + " " + u.String()
			answers[key] = append(answers[key], answer)
			n.Host(u.Host())
		}
	}
	for key, list := range answers {
		method, url, _ := strings.Cut(key, " ")
		n.set(method, url, list)
	}
	for name, list := range dns {
		n.SetDNS(name, list...)
	}
	for name, list := range tls {
		n.SetTLS(name, list...)
	}
	for name, list := range connect {
		n.SetConnect(name, list...)
	}
	return rest, nil
}

func parseDNS(text string) (DNS, error) {
	words := strings.Fields(text)
	if len(words) == 1 {
		switch words[0] {
		case "nxdomain", "servfail", "timeout":
			return DNS{Err: words[0]}, nil
		}
	}
	var answer DNS
	for _, word := range words {
		a, err := netip.ParseAddr(word)
		if err != nil {
			return DNS{}, fmt.Errorf("%q is no address, nxdomain, servfail or timeout", word)
		}
		answer.Addrs = append(answer.Addrs, a)
	}
	return answer, nil
}

// parseAnswer reads one answer. tlsState is set when the connection does not
// get as far as an answer.
func parseAnswer(u weburl.URL, text string) (a Answer, tlsState string, err error) {
	a.Header = make(http.Header)
	path := u.Target()
	first := true
	for rest, inHead := text, true; inHead; first = false {
		line, after, more := strings.Cut(rest, "\n")
		line = strings.TrimSuffix(line, "\r")
		switch {
		case line == "" && !first:
			a.Body = after
			return a, tlsState, nil
		case first && isStatus(line):
			a.Status, _ = strconv.Atoi(line[:3])
			if target := strings.TrimSpace(line[3:]); target != "" && a.Status/100 == 3 {
				a.Header.Set("Location", target)
			}
		case isDirective(line):
			if tlsState, err = a.direct(line, tlsState); err != nil {
				return Answer{}, "", err
			}
		case isHeader(line) && !(first && path == "/robots.txt"):
			name, value, _ := strings.Cut(line, ":")
			a.Header.Add(name, strings.TrimSpace(value))
		case first:
			a.Body = text
			return a, "", nil
		default:
			return Answer{}, "", fmt.Errorf("line %q is no header; an empty line ends the head", line)
		}
		rest, inHead = after, more
	}
	return a, tlsState, nil
}

func isStatus(line string) bool {
	status, _, _ := strings.Cut(line, " ")
	code, err := strconv.Atoi(status)
	return err == nil && len(status) == 3 && code >= 200 && code < 600
}

func isDirective(line string) bool {
	word, _, _ := strings.Cut(line, " ")
	switch word {
	case "timeout", "reset", "cut", "slow", "wait", "tls-expired", "tls-selfsigned":
		return true
	}
	return false
}

func (a *Answer) direct(line, tlsState string) (string, error) {
	word, arg, _ := strings.Cut(line, " ")
	switch word {
	case "wait":
		d, err := time.ParseDuration(strings.TrimSpace(arg))
		if err != nil {
			return "", fmt.Errorf("read wait: %w", err)
		}
		a.Wait = d
		return tlsState, nil
	case "tls-expired", "tls-selfsigned":
		return strings.TrimPrefix(word, "tls-"), nil
	}
	if arg != "" {
		return "", fmt.Errorf("%q takes no argument", word)
	}
	a.Fault = Fault(word)
	return tlsState, nil
}

func isHeader(line string) bool {
	name, _, ok := strings.Cut(line, ":")
	return ok && name != "" && url.PathEscape(name) == name && !strings.ContainsAny(name, "/@()")
}
