package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeCode: each Go block of the README and of the page on sign-in
// stands, but for white space, in an example that the tests compile and run.
func TestReadmeCode(t *testing.T) {
	for _, page := range []string{"README.md", filepath.Join("docs", "sign-in.md")} {
		t.Run(filepath.Base(page), func(t *testing.T) { checkCode(t, page) })
	}
}

func checkCode(t *testing.T, page string) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	blocks := goBlocks(string(text))
	if len(blocks) == 0 {
		t.Fatalf("%s has no Go code", page)
	}
	var examples []string
	files(t, func(path string, data []byte) {
		rel, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "example_test.go") || strings.HasPrefix(filepath.ToSlash(rel), "examples/") {
			examples = append(examples, squeeze(string(data)))
		}
	}, ".go")
	for _, block := range blocks {
		if !contains(examples, block) {
			t.Errorf("this code of %s is in no example_test.go and no file under examples:\n%s", page, block)
		}
	}
}

var fence = regexp.MustCompile("(?ms)^```go[^\\n]*\\n(.*?)^```")

// goBlocks gives the fenced Go blocks of a Markdown text.
func goBlocks(markdown string) []string {
	var blocks []string
	for _, m := range fence.FindAllStringSubmatch(markdown, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func contains(examples []string, block string) bool {
	block = squeeze(block)
	for _, e := range examples {
		if strings.Contains(e, block) {
			return true
		}
	}
	return false
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestReadmeCodeCatches(t *testing.T) {
	blocks := goBlocks("# A\n```go\nx := 1\ny := 2\n```\n```sh\nls\n```\n```go\nz()\n```\n")
	if len(blocks) != 2 {
		t.Fatalf("blocks: %q", blocks)
	}
	examples := []string{squeeze("func Example() {\n\tx := 1\n\ty := 2\n}")}
	if !contains(examples, blocks[0]) || contains(examples, blocks[1]) {
		t.Errorf("found %t and %t", contains(examples, blocks[0]), contains(examples, blocks[1]))
	}
}
