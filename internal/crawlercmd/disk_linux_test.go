package crawlercmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk is a file system of some KiB, and how to give it more.
func smallDisk(t *testing.T, kib string) (dir string, grow func(kib string)) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+kib+"k"); err != nil {
		t.Skipf("no small file system (only root may mount one): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, func(kib string) {
		t.Helper()
		if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size="+kib+"k"); err != nil {
			t.Fatal(err)
		}
	}
}

// A crawler whose disk is full says so and ends. What it had stored can be read
// on the full disk, and once there is room the crawl goes on.
func TestDiskFull(t *testing.T) {
	for _, kib := range []string{"160", "480", "1200", "2000"} {
		t.Run(kib+" KiB", func(t *testing.T) {
			t.Parallel()
			dir, grow := smallDisk(t, kib)
			l := newLoopback(t)
			seeds := l.publish(t, 80)
			db := filepath.Join(dir, "index.db")
			p := l.run(t, nil, db, "--seeds", seeds, "--workers", "20")
			p.wantFailed(t, time.Minute, "the disk is full", "nothing that was stored is lost")
			t.Logf("it wrote:\n%s", p.log)

			// As an operator might: again, before there is room.
			p = l.run(t, nil, db, "--seeds", seeds)
			p.wantFailed(t, time.Minute, "the disk is full", "nothing that was stored is lost")

			grow("65536")
			a := newAudit(l, db)
			n := a.check(t)
			if n == len(l.cards) {
				t.Error("the disk was too large for this test")
			}
			t.Logf("%d of %d apps listed, %d hosts leased", n, len(l.cards), a.leased(t))
			for _, name := range []string{db, db + "-wal", db + "-shm"} {
				if info, err := os.Stat(name); err == nil {
					t.Logf("%s: %d octets", strings.TrimPrefix(name, dir), info.Size())
				}
			}
		})
	}
}
