package sqlite

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// A document whose contents changed in any way is written whole: each field is
// in the checksum, or among what is written in any case, or stands for its row.
func TestContents(t *testing.T) {
	l := leased{seed: maphash.MakeSeed()}
	written := map[string]bool{
		"Class": true, "NextAt": true, "Interval": true, "CheckedAt": true, "ReadAt": true, "FullGetAt": true, "Status": true, "Fails": true,
	}
	row := map[string]bool{"URL": true, "Host": true}
	kept := map[string]bool{"Body": true} // its hash is in the sum
	sum := func(d *index.Doc) uint64 { return l.contents(d, &knownDoc{needs: lines(d.Needs)}) }
	var plain index.Doc
	before := sum(&plain)
	for i := range reflect.TypeFor[index.Doc]().NumField() {
		name := reflect.TypeFor[index.Doc]().Field(i).Name
		d := plain
		switch f := reflect.ValueOf(&d).Elem().Field(i); v := f.Addr().Interface().(type) {
		case *time.Time:
			*v = time.UnixMicro(1)
		case *[]string:
			*v = []string{""}
		case *[]byte:
			*v = []byte{0}
		case *bool:
			*v = true
		default:
			if f.Kind() == reflect.String {
				f.SetString("x")
			} else {
				f.SetInt(1)
			}
		}
		changed := sum(&d) != before
		if want := !written[name] && !row[name] && !kept[name]; changed != want {
			t.Errorf("%s: the checksum changed is %t, want %t; putTimes and contents must share all fields", name, changed, want)
		}
	}
}

// What is remembered of leases that nobody comes back from does not pile up.
func TestRememberForgets(t *testing.T) {
	var l leased
	now := time.UnixMicro(1)
	for i := range 10_000 {
		now = now.Add(time.Second)
		lease := index.Lease{No: 1, Until: now.Add(time.Minute), Host: index.Host{Name: fmt.Sprint(i)}}
		l.remember([]index.Lease{lease}, make([]map[string]knownDoc, 1), now)
	}
	if len(l.hosts) > 1100 {
		t.Errorf("%d leases are remembered", len(l.hosts))
	}
}
