package crawlercmd

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/index"
)

// What is wrong with a database is told in one sentence that names the file
// once and says what to do.
func TestDatabaseFaults(t *testing.T) {
	dir := t.TempDir()
	run := func(t *testing.T, file, statement string) {
		t.Helper()
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	made := func(t *testing.T, name string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		s, err := openStore(t.Context(), file, true, nil)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, tt := range []struct {
		name  string
		make  func(t *testing.T) string
		is    error
		parts []string
	}{
		{"another program's", func(t *testing.T) string {
			file := filepath.Join(dir, "other.db")
			run(t, file, "CREATE TABLE a (b)")
			return file
		}, index.ErrSchema, []string{"it is the database of another program; give another file"}},
		{"newer", func(t *testing.T) string {
			file := made(t, "newer.db")
			run(t, file, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)")
			return file
		}, index.ErrSchema, []string{"version 999", "use a newer program"}},
		{"read-only", func(t *testing.T) string {
			if os.Geteuid() == 0 {
				t.Skip("root may write every file")
			}
			file := made(t, "readonly.db")
			if err := os.Chmod(file, 0o400); err != nil {
				t.Fatal(err)
			}
			return file
		}, os.ErrPermission, []string{"this user cannot write", "run crawler as the user that owns it"}},
		{"damaged", func(t *testing.T) string {
			file := made(t, "damaged.db")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i := range data[100:] {
				data[100+i] = 0xa5
			}
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}, index.ErrCorrupt, []string{"the database is damaged; restore a backup"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := tt.make(t)
			for _, create := range []bool{false, true} {
				_, err := openStore(t.Context(), file, create, nil)
				if !errors.Is(err, tt.is) {
					t.Fatalf("got %v, want %v", err, tt.is)
				}
				for _, part := range append(tt.parts, file) {
					if strings.Count(err.Error(), part) != 1 {
						t.Errorf("%q has not once %q", err, part)
					}
				}
				if strings.Contains(err.Error(), "open index") || len(err.Error()) > len(file)+150 {
					t.Errorf("%q", err)
				}
			}
		})
	}
}

// A process that was killed while it made the database may leave its first page
// empty; that is no other file.
func TestUnfinishedDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index.db")
	if err := os.WriteFile(file, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lookAt(file, true); err != nil {
		t.Error(err)
	}
	if _, err := openStore(context.Background(), filepath.Join(file, "x.db"), true, nil); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a file as directory: %v", err)
	}
}
