package sqlite

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

const (
	formatNow  = 1
	keyBytes   = 32
	saltBytes  = 16
	nonceBytes = 12
	tagBytes   = 16

	// maxSecret is far more than any server gives; HTTP headers end sooner.
	maxSecret = 256 << 10
)

// errSealed is a sealed text that does not open. It never says more: the reason
// is of use to an attacker only.
var errSealed = errors.New("does not open")

// errNoKey stops what would be sealed with zeros for a key: everybody could open
// that.
var errNoKey = errors.New("there is no key to seal with")

// key is 32 secret bytes, a master key or a data key. It prints as [secret] in
// every way.
type key [keyBytes]byte

const hidden = "[secret]"

func (key) String() string               { return hidden }
func (key) GoString() string             { return hidden }
func (key) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, hidden) }
func (key) MarshalText() ([]byte, error) { return []byte(hidden), nil }
func (key) LogValue() slog.Value         { return slog.StringValue(hidden) }

func newKey() (k key) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// derive gives bytes that tell nothing about k. use keeps those for different
// purposes apart.
func (k key) derive(salt []byte, use string, n int) []byte {
	b, err := hkdf.Key(sha256.New, k[:], salt, use, n)
	if err != nil {
		panic(err) // the length is ours, and allowed
	}
	return b
}

// fingerprint tells keys apart.
func (k key) fingerprint() string {
	return hex.EncodeToString(k.derive(nil, "openbot host fingerprint", 8))
}

func aead(k []byte) cipher.AEAD {
	block, err := aes.NewCipher(k)
	if err != nil {
		panic(err) // the length is ours, and allowed
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return a
}

// bind joins fields in a way that no other fields give.
func bind(fields ...any) []byte {
	var b []byte
	for _, f := range fields {
		switch f := f.(type) {
		case *string:
			b = binary.BigEndian.AppendUint64(b, uint64(len(*f)))
			b = append(b, *f...)
		case *int64:
			b = binary.BigEndian.AppendUint64(b, 8)
			b = binary.BigEndian.AppendUint64(b, uint64(*f))
		default:
			panic(fmt.Sprintf("bind %T", f))
		}
	}
	return b
}

// wrap seals a data key for one database and one master key.
func (k key) wrap(store, id string, data key) ([]byte, error) {
	if k == (key{}) || data == (key{}) {
		return nil, errNoKey
	}
	master := k.fingerprint()
	return aead(k.derive(nil, "openbot host wrap 1", keyBytes)).Seal(nil, nil, data[:], bind(&store, &id, &master)), nil //nolint:gosec // aead makes the nonce
}

func (k key) unwrap(store, id string, wrapped []byte) (data key, err error) {
	master := k.fingerprint()
	b, err := aead(k.derive(nil, "openbot host wrap 1", keyBytes)).Open(nil, nil, wrapped, bind(&store, &id, &master))
	if err != nil || len(b) != keyBytes || key(b) == (key{}) {
		return key{}, errSealed
	}
	return key(b), nil
}

// row is one row of the table secret.
type row struct {
	id int64

	format             int64
	keyID              string
	connection         string
	user               string
	kind               string
	name               string
	parts              string
	cardURL            string
	endpoint           string
	issuer             string
	resource           string
	clientID           string
	authMethod         string
	clientExpires      int64
	tokenEndpoint      string
	revocationEndpoint string
	redirectURI        string
	issAdvertised      int64
	scopes             string
	requested          string
	expires            int64
	version            int64

	salt       []byte
	nonce      []byte
	ciphertext []byte
}

// boundColumns are the columns of bound, in its order.
const boundColumns = `format, key_id, connection, user, kind, name, parts, card_url, endpoint, issuer, resource, client_id,
	auth_method, client_expires, token_endpoint, revocation_endpoint, redirect_uri, iss_advertised, scopes, requested,
	expires, version`

const (
	rowColumns = `id, ` + boundColumns + `, salt, nonce, ciphertext`
	insertRow  = `INSERT INTO secret (` + boundColumns + `, salt, nonce, ciphertext)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// bound is all that the ciphertext is bound to: every column that says what it
// is, whose it is and where it may be sent.
func (r *row) bound() []any {
	return []any{
		&r.format, &r.keyID, &r.connection, &r.user, &r.kind, &r.name, &r.parts, &r.cardURL, &r.endpoint, &r.issuer, &r.resource, &r.clientID,
		&r.authMethod, &r.clientExpires, &r.tokenEndpoint, &r.revocationEndpoint, &r.redirectURI, &r.issAdvertised, &r.scopes, &r.requested,
		&r.expires, &r.version,
	}
}

func (r *row) columns() []any {
	return append(append([]any{&r.id}, r.bound()...), &r.salt, &r.nonce, &r.ciphertext)
}

func (r *row) values() []any { return append(r.bound(), r.salt, r.nonce, r.ciphertext) }

// rowKey has a salt for each sealing, so that no key ever seals two texts.
func rowKey(data key, salt []byte) []byte { return data.derive(salt, "openbot host row 1", keyBytes) }

// seal sets key, salt, nonce and ciphertext of a row whose other columns are set.
func (r *row) seal(keyID string, data key, text string) error {
	if len(text) > maxSecret {
		return fmt.Errorf("the %s is longer than %d bytes", r.kind, maxSecret)
	}
	if data == (key{}) {
		return errNoKey
	}
	r.format, r.keyID = formatNow, keyID
	r.salt = make([]byte, saltBytes)
	_, _ = rand.Read(r.salt)
	sealed := aead(rowKey(data, r.salt)).Seal(nil, nil, []byte(text), bind(r.bound()...)) //nolint:gosec // aead makes the nonce
	r.nonce, r.ciphertext = sealed[:nonceBytes:nonceBytes], sealed[nonceBytes:]
	return nil
}

// unseal gives the text of a row, or errSealed.
func (r *row) unseal(data key) (string, error) {
	if data == (key{}) || r.format != formatNow || len(r.salt) != saltBytes || len(r.nonce) != nonceBytes ||
		len(r.ciphertext) < tagBytes || len(r.ciphertext) > maxSecret+tagBytes {
		return "", errSealed
	}
	sealed := append(append(make([]byte, 0, nonceBytes+len(r.ciphertext)), r.nonce...), r.ciphertext...)
	text, err := aead(rowKey(data, r.salt)).Open(nil, nil, sealed, bind(r.bound()...))
	if err != nil {
		return "", errSealed
	}
	return string(text), nil
}
