package sqlite

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

// firstFormat is a row as the first version sealed it, under key{7}, and its data
// key wrapped by key{8}. What was sealed once must open for ever.
func firstFormat() (r *row, wrapped []byte) {
	c := conn("c1", "ann")
	r = of(c, access)
	r.ofClient(&tokensOf(c).Client)
	r.format, r.keyID, r.version, r.scopes = 1, "k", 3, `["read"]`
	r.salt = unhex("2a2939fd2f751d5a53084c74809a5fcd")
	r.nonce = unhex("36c6255937855bc2032f0ee9")
	r.ciphertext = unhex("04a51f9c1f08c35198eeb30551fffcd1753c64978e0c0c0a")
	return r, unhex("a7cdf0de71a83e18938efec6f666f3331c2802075335fc8158169e47084d3b26eaf70648107fdac681efd4ec80b1585a50de1e830b5af307363ff261")
}

func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

func TestFirstFormatOpens(t *testing.T) {
	r, wrapped := firstFormat()
	if text, err := r.unseal(key{7}); err != nil || text != "the text" {
		t.Errorf("%q, %v", text, err)
	}
	if k, err := (key{8}).unwrap("store", "k", wrapped); err != nil || k != (key{7}) {
		t.Errorf("the data key does not open: %v", err)
	}
	for _, other := range [][2]string{{"store2", "k"}, {"store", "k2"}, {"stor", "ek"}} {
		if _, err := (key{8}).unwrap(other[0], other[1], wrapped); !errors.Is(err, errSealed) {
			t.Errorf("it opens for %v", other)
		}
	}
}

// Nothing opens but what was sealed.
func FuzzUnseal(f *testing.F) {
	good, wrapped := firstFormat()
	f.Add(good.user, good.name, good.endpoint, good.version, good.salt, good.nonce, good.ciphertext)
	f.Add("an", "n", good.endpoint, good.version, good.salt, good.nonce, good.ciphertext)
	f.Add("", "", "", int64(-1), []byte(nil), []byte(nil), []byte(nil))
	f.Add("ann", "", "", int64(0), good.salt[:15], good.nonce, good.ciphertext[:15])
	f.Add("store", "k", "", int64(0), good.salt, good.nonce, wrapped)
	f.Fuzz(func(t *testing.T, user, name, endpoint string, version int64, salt, nonce, ciphertext []byte) {
		r := *good
		r.user, r.name, r.endpoint, r.version, r.salt, r.nonce, r.ciphertext = user, name, endpoint, version, salt, nonce, ciphertext
		text, err := r.unseal(key{7})
		untouched := user == good.user && name == good.name && endpoint == good.endpoint && version == good.version &&
			bytes.Equal(salt, good.salt) && bytes.Equal(nonce, good.nonce) && bytes.Equal(ciphertext, good.ciphertext)
		if untouched != (err == nil) || (err == nil && text != "the text") || (err != nil && (text != "" || !errors.Is(err, errSealed))) {
			t.Errorf("%q, %v", text, err)
		}
		k, err := key{8}.unwrap(user, name, ciphertext)
		if untouched := user == "store" && name == "k" && bytes.Equal(ciphertext, wrapped); untouched != (err == nil) || (err == nil && k != (key{7})) {
			t.Errorf("unwrap: %v", err)
		}
	})
}
