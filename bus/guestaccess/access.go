package guestaccess

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync"
)

// tokenParameter carries the credential in the query of a guest's bus URL: every
// client sends the query with its handshake, some cannot send headers
// (contracts/iii-bus.md §9.2).
const tokenParameter = "token"

// Access is the guests' way to the bus: its address, who signs their
// credentials, and whether it has been seen to keep them apart. Its methods may
// be called concurrently.
type Access struct {
	address   url.URL
	authority *Authority
	required  bool

	mu        sync.Mutex
	isolation Isolation
}

// NewAccess returns the access at a listener's URL. With required, guests get no
// access unless the listener has been seen to keep them apart.
func NewAccess(address string, authority *Authority, required bool) (*Access, error) {
	// Errors never repeat the URL: its query may hold a secret.
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" {
		return nil, errors.New("the guests' bus URL does not parse")
	}
	if authority == nil {
		return nil, errors.New("the guests' bus access needs an authority")
	}
	parsed.Path = cmp.Or(parsed.Path, "/")
	parsed.Host = namedHost(parsed)
	return &Access{address: *parsed, authority: authority, required: required}, nil
}

// namedHost is the host and port of a URL, with the name localhost in place of a
// loopback address: daemons replace that name by the way from a guest to their
// own machine (contracts/code-runner.md §18 A06).
func namedHost(u *url.URL) string {
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil || !ip.Unmap().IsLoopback() {
		return u.Host
	}
	if port := u.Port(); port != "" {
		return net.JoinHostPort("localhost", port)
	}
	return "localhost"
}

// URL is what a guest finds in III_URL, with its credential: a secret.
func (a *Access) URL(g Guest) string {
	address := a.address
	query := address.Query()
	query.Set(tokenParameter, a.authority.Issue(g).Reveal())
	address.RawQuery = query.Encode()
	return address.String()
}

// Template is a digest of what all guests of a spec share, without a secret. When
// it changes, their sandboxes are to be replaced: a session keeps the policy that
// it connected with.
func (a *Access) Template(allow []string) string {
	text, err := json.Marshal([]any{a.address.String(), a.authority.Fingerprint(), allow})
	if err != nil {
		panic(fmt.Sprintf("encoding strings: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Isolation is what the last probe of the listener found.
func (a *Access) Isolation() Isolation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isolation
}

// Doubt marks the last finding as one of a former connection. It stands until the
// next probe, but nobody relies on it.
func (a *Access) Doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isolation.Doubted = true
}

// Found takes a finding and reports whether it says anything new.
func (a *Access) Found(found Isolation) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed = a.isolation != found
	a.isolation = found
	return changed
}
