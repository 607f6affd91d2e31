package guestaccess

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// KeyBytes is the length of the key that signs credentials.
const KeyBytes = 32

// version begins every credential. It is also what takes them out of texts that
// guests write; see controllers/internal/redact.
const version = "sog1"

// maxCredential bounds what is looked at, in bytes; names of 253 bytes fit well.
const maxCredential = 2048

// errInvalid is all that is said about a credential that does not verify.
var errInvalid = errors.New("the credential is not valid")

// Authority issues and verifies credentials with one key.
type Authority struct{ key []byte }

// NewAuthority returns the authority of a key of KeyBytes bytes.
func NewAuthority(key []byte) (*Authority, error) {
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("the key of guest credentials has %d bytes, want %d", len(key), KeyBytes)
	}
	return &Authority{key: append([]byte(nil), key...)}, nil
}

// Format hides the key from every verb.
func (a *Authority) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "guest authority (redacted)")
}

// Fingerprint names the key without telling it. It changes when the key does,
// and no credential of another key verifies.
func (a *Authority) Fingerprint() string {
	return hex.EncodeToString(a.sign("fingerprint")[:8])
}

var encoding = base64.RawURLEncoding.Strict()

// Issue makes the credential of a guest. The same guest always gets the same.
func (a *Authority) Issue(g Guest) Credential {
	claims, err := json.Marshal(g)
	if err != nil {
		panic(fmt.Sprintf("encoding strings: %v", err))
	}
	signed := version + "." + encoding.EncodeToString(claims)
	return Credential{signed + "." + encoding.EncodeToString(a.sign(signed))}
}

// Verify returns whom a token was issued for. That the guest still exists is
// another question.
func (a *Authority) Verify(token string) (Guest, error) {
	end := strings.LastIndexByte(token, '.')
	if len(token) > maxCredential || end < 0 {
		return Guest{}, errInvalid
	}
	signature, err := encoding.DecodeString(token[end+1:])
	// Nothing in it is looked at before it is known to be ours.
	if err != nil || !hmac.Equal(signature, a.sign(token[:end])) {
		return Guest{}, errInvalid
	}
	claims, ours := strings.CutPrefix(token[:end], version+".")
	text, err := encoding.DecodeString(claims)
	if !ours || err != nil {
		return Guest{}, errInvalid
	}
	var g Guest
	if json.Unmarshal(text, &g) != nil {
		return Guest{}, errInvalid
	}
	return g, nil
}

func (a *Authority) sign(text string) []byte {
	mac := hmac.New(sha256.New, a.key)
	_, _ = io.WriteString(mac, text) // a hash never fails
	return mac.Sum(nil)
}
