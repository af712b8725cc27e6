package sqlite

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "a", "\x1e", "a\x1eb", "\n\x1e\\n\x1e\\\\\n", "\xff\x00", "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := strings.Split(text, "\x1e")
		if got := fromLines(lines(want)); !slices.Equal(got, want) {
			t.Errorf("%q came back as %q", want, got)
		}
	})
}

func TestNoLines(t *testing.T) {
	if got := fromLines(lines(nil)); got != nil {
		t.Errorf("no list came back as %q", got)
	}
}

// Migrations are numbered from 1 without gaps and go forward only.
func TestMigrations(t *testing.T) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	name := regexp.MustCompile(`^migrations/(\d{4})_[a-z0-9_]+\.sql$`)
	for i, file := range files {
		m := name.FindStringSubmatch(file)
		if m == nil {
			t.Fatalf("%s is not named 0000_words.sql", file)
		}
		if n, _ := strconv.Atoi(m[1]); n != i+1 {
			t.Errorf("%s is number %d", file, i+1)
		}
		text, err := fs.ReadFile(migrations, file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "-- +goose Up\n") || strings.Contains(string(text), "+goose Down") {
			t.Errorf("%s does not go forward only", file)
		}
	}
}
