package accesstoken

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// Limits of a key set. The largest seen in the field has some 50 KB.
const (
	maxSet  = 512 << 10
	maxKeys = 256
	minRSA  = 2048 // bits; go-jose takes no more than 4096
)

// key is one public key that verifies signatures.
type key struct {
	id     string // "" for none
	alg    string // "" when the set does not bind it to one
	public any    // *ecdsa.PublicKey, *rsa.PublicKey or ed25519.PublicKey
	print  string // its thumbprint (RFC 7638), to see changes
}

// signs reports whether signatures of an algorithm are made by such a key (J2).
func (k *key) signs(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch p := k.public.(type) {
	case *ecdsa.PublicKey:
		switch p.Curve.Params().BitSize {
		case 256:
			return alg == "ES256"
		case 384:
			return alg == "ES384"
		case 521:
			return alg == "ES512"
		}
	case *rsa.PublicKey:
		return len(alg) == 5 && (alg[:2] == "RS" || alg[:2] == "PS")
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// Usable gives the kid of each key of a JWK Set that may verify access tokens,
// in the order of the set.
func Usable(set []byte) ([]string, error) {
	keys, err := parseSet(set, Algorithms())
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(keys))
	for i := range keys {
		ids = append(ids, keys[i].id)
	}
	return ids, nil
}

// parseSet reads a JWK Set key by key: one that we cannot use never costs the
// others (J3, J5). The error is a text that is no set at all.
func parseSet(set []byte, algorithms []string) ([]key, error) {
	if len(set) > maxSet {
		return nil, fmt.Errorf("the key set is larger than %d bytes", maxSet)
	}
	doc, err := strictjson.Parse(set)
	if err != nil {
		return nil, fmt.Errorf("the key set is not JSON: %w", err)
	}
	root := doc.Root()
	if name, twice := root.Duplicate(); twice {
		return nil, fmt.Errorf("the key set has the member %s twice", strictjson.Quote(name))
	}
	var list strictjson.Value
	for name, v := range root.Members() {
		if string(name) == "keys" {
			list = v
		}
	}
	if list.Kind() != strictjson.Array {
		return nil, errors.New(`the key set has no array "keys"`)
	}
	var keys []key
	for i, v := range list.Elements() {
		if i == maxKeys {
			break
		}
		k, ok := parseKey(v)
		if ok && slices.ContainsFunc(algorithms, k.signs) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// parseKey reads one key: a public one for signatures (J5). Certificates in it
// are not looked at.
func parseKey(v strictjson.Value) (k key, ok bool) {
	if _, twice := v.Duplicate(); twice || v.Kind() != strictjson.Object {
		return k, false
	}
	var kty string
	members := []byte("{")
	for name, v := range v.Members() {
		switch string(name) {
		case "d", "p", "q", "dp", "dq", "qi", "oth", "k": // private, or shared
			return k, false
		case "use":
			if v.Text() != "sig" {
				return k, false
			}
		case "key_ops":
			ops, isList := texts(v, false)
			if !isList || v.Kind() != strictjson.Array || !slices.Contains(ops, "verify") {
				return k, false
			}
		case "alg":
			if k.alg = v.Text(); k.alg == "" {
				return k, false
			}
		case "kid":
			if v.Kind() != strictjson.String {
				return k, false
			}
			k.id = v.Text()
		case "kty", "crv", "x", "y", "n", "e":
			if string(name) == "kty" {
				kty = v.Text()
			}
			if len(members) > 1 {
				members = append(members, ',')
			}
			members = fmt.Appendf(members, "%q:", name)
			members = append(members, v.Raw()...)
		}
	}
	members = append(members, '}')
	if kty != "EC" && kty != "RSA" && kty != "OKP" {
		return k, false
	}
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(members); err != nil || !jwk.Valid() || !jwk.IsPublic() {
		return k, false
	}
	if p, isRSA := jwk.Key.(*rsa.PublicKey); isRSA && (p.N.BitLen() < minRSA || p.E < 3 || p.E%2 == 0) {
		return k, false
	}
	print, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return k, false
	}
	k.public, k.print = jwk.Key, string(print)
	return k, true
}

// sameKeys reports whether two sets verify the same tokens, whatever the order
// of keys and members is.
func sameKeys(a, b []key) bool {
	order := func(a, b key) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.print, b.print), cmp.Compare(a.alg, b.alg))
	}
	same := func(a, b key) bool { return order(a, b) == 0 }
	a, b = slices.SortedFunc(slices.Values(a), order), slices.SortedFunc(slices.Values(b), order)
	return slices.EqualFunc(slices.CompactFunc(a, same), slices.CompactFunc(b, same), same)
}
