package guestaccess

import (
	"net/url"
	"testing"
)

// A06, A07: guests get a loopback literal by its name, anything else as it is.
func TestAccess_URL(t *testing.T) {
	for address, want := range map[string]string{
		"ws://127.0.0.1:4321":                  "ws://localhost:4321/",
		"ws://127.8.9.10:4321/guests?keep=me":  "ws://localhost:4321/guests?keep=me",
		"ws://[::1]:4321":                      "ws://localhost:4321/",
		"ws://[::ffff:127.0.0.1]:4321":         "ws://localhost:4321/",
		"ws://127.0.0.1":                       "ws://localhost/",
		"ws://[::1]":                           "ws://localhost/",
		"ws://localhost:4321":                  "ws://localhost:4321/",
		"wss://bus.example.test/guests":        "wss://bus.example.test/guests",
		"ws://127.0.0.1.example.test:4321":     "ws://127.0.0.1.example.test:4321/",
		"ws://[2001:db8::1]:4321":              "ws://[2001:db8::1]:4321/",
		"wss://192.0.2.7:4321":                 "wss://192.0.2.7:4321/",
		"ws://user:password@127.0.0.1:4321/a?": "ws://user:password@localhost:4321/a",
	} {
		access, err := NewAccess(address, authorityOf(t, 1), false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := url.Parse(access.URL(Guest{Kind: KindRun, Namespace: "runs", Name: "r", UID: "u", Instance: "i"}))
		if err != nil {
			t.Fatal(err)
		}
		query := got.Query()
		if query.Get(tokenParameter) == "" {
			t.Errorf("%s: no credential", address)
		}
		query.Del(tokenParameter)
		got.RawQuery = query.Encode()
		if got.String() != want {
			t.Errorf("%s became %s, want %s", address, got, want)
		}
	}
}
