// Command rulebook joins the rule book of the project, docs/rules, with the
// tests that are named after its numbers.
//
// It prints each number with its tests, then the numbers that have none, then
// the rule tests whose number is not in the book. With -strict it prints only
// the numbers without a test, and ends with status 1 when there are any.
//
// A rule is a list item that begins with its number in bold:
//
//   - **OB-114** A card that its catalog lists no more leaves the index (OpenBot App Protocol V1.1).
//   - **documents K1** Identifiers are compared byte for byte (our decision D2).
//
// Its tests are the functions TestRule_OB114, TestRule_OB114_… and
// TestRule_DocumentsK1_…: the number without hyphens and spaces, each word with
// a capital. A rule about speed, which no unit test asserts, says instead that it
// is "measured by make bench"; it is listed by itself.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

func main() {
	strict := flag.Bool("strict", false, "print only the rules without a test, and end with status 1 when there are any")
	root := flag.String("root", ".", "directory of the module")
	flag.Parse()
	j, err := read(os.DirFS(*root))
	if err != nil {
		fmt.Fprintln(os.Stderr, "rulebook:", err)
		os.Exit(1)
	}
	if !*strict {
		j.report(os.Stdout)
		return
	}
	if len(j.open) > 0 {
		j.reportOpen(os.Stderr)
		os.Exit(1)
	}
}

// joined is the book beside the tests.
type joined struct {
	book      []rule
	tests     map[string][]string // by key
	open      []rule              // without a test
	measured  []rule              // without a test, measured instead
	strangers []string            // tests without a rule
}

func read(fsys fs.FS) (*joined, error) {
	book, err := readBook(fsys)
	if err != nil {
		return nil, err
	}
	tests, err := findTests(fsys)
	if err != nil {
		return nil, err
	}
	j := &joined{book: book, tests: tests}
	known := map[string]bool{}
	for _, r := range book {
		known[r.key] = true
		switch {
		case len(tests[r.key]) > 0:
		case strings.Contains(r.text, measuredBy):
			j.measured = append(j.measured, r)
		default:
			j.open = append(j.open, r)
		}
	}
	for key, names := range tests {
		if !known[key] {
			j.strangers = append(j.strangers, names...)
		}
	}
	slices.Sort(j.strangers)
	return j, nil
}

// measuredBy marks a rule about speed.
const measuredBy = "measured by make bench"

func (j *joined) report(w io.Writer) {
	total := 0
	for _, r := range j.book {
		if found := j.tests[r.key]; len(found) > 0 {
			total += len(found)
			fmt.Fprintf(w, "%-14s %s\n", r.number, strings.Join(found, "\n               "))
		}
	}
	if len(j.measured) > 0 {
		fmt.Fprintf(w, "\nRules measured by make bench:\n")
		for _, r := range j.measured {
			fmt.Fprintf(w, "%-14s %s\n", r.number, r.text)
		}
	}
	if len(j.open) > 0 {
		fmt.Fprintln(w)
		j.reportOpen(w)
	}
	if len(j.strangers) > 0 {
		fmt.Fprintf(w, "\nRule tests whose number is not in docs/rules:\n%s\n", strings.Join(j.strangers, "\n"))
	}
	fmt.Fprintf(w, "\nrules: %d, with a test: %d, measured: %d, without: %d; rule tests: %d, without a rule: %d\n",
		len(j.book), len(j.book)-len(j.open)-len(j.measured), len(j.measured), len(j.open), total+len(j.strangers), len(j.strangers))
}

func (j *joined) reportOpen(w io.Writer) {
	fmt.Fprintf(w, "Rules without a test:\n")
	for _, r := range j.open {
		fmt.Fprintf(w, "%-14s %s\n", r.number, r.text)
	}
}

// rule is one item of the book.
type rule struct {
	number string // as written
	key    string // as in the names of tests
	text   string
}

var item = regexp.MustCompile(`^- \*\*([^*]+)\*\* (\S.*)$`)

// readBook reads docs/rules/*.md in order. A number given twice, and an item
// that is no rule, are errors: they would hide a rule.
func readBook(fsys fs.FS) ([]rule, error) {
	files, err := fs.Glob(fsys, "docs/rules/*.md")
	if err != nil {
		return nil, err
	}
	var book []rule
	seen := map[string]string{}
	for _, file := range files {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		for i, line := range bytes.Split(data, []byte("\n")) {
			text := string(line)
			where := fmt.Sprintf("%s:%d", file, i+1)
			if !strings.HasPrefix(text, "- **") {
				continue
			}
			m := item.FindStringSubmatch(text)
			if m == nil {
				return nil, fmt.Errorf("%s: not a rule: - **NUMBER** sentence (source)", where)
			}
			r := rule{number: m[1], key: key(m[1]), text: m[2]}
			if other, ok := seen[r.key]; ok {
				return nil, fmt.Errorf("%s: %s stands at %s already", where, r.number, other)
			}
			seen[r.key] = where
			book = append(book, r)
		}
	}
	if len(book) == 0 {
		return nil, fmt.Errorf("no rules in docs/rules/*.md")
	}
	return book, nil
}

// key turns a number into the form that test names use: "documents K1" is
// DocumentsK1, "OB-T19" is OBT19.
func key(number string) string {
	var b strings.Builder
	for _, word := range strings.Fields(strings.ReplaceAll(number, "-", "")) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// findTests gives the rule tests of the module by key, each as
// package-directory.Name.
func findTests(fsys fs.FS) (map[string][]string, error) {
	tests := map[string][]string{}
	err := fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); file != "." && (name[0] == '.' || name[0] == '_' || name == "testdata" || name == "vendor") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, data, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			if rest, ok := strings.CutPrefix(f.Name.Name, "TestRule_"); ok {
				k, _, _ := strings.Cut(rest, "_")
				tests[k] = append(tests[k], path.Dir(file)+"."+f.Name.Name)
			}
		}
		return nil
	})
	return tests, err
}
