package guestaccess

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

func authorityOf(t testing.TB, fill byte) *Authority {
	t.Helper()
	authority, err := NewAuthority(bytes.Repeat([]byte{fill}, KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func someGuest() Guest {
	return Guest{
		Kind: KindRuntime, Namespace: "shop", Name: "prices", UID: "5b0c6c3e-0f0e-4f0d-9b5a-8d8f3a1e7c11",
		Instance: strings.Repeat("ab", 32), Language: v1alpha1.LanguageNode,
	}
}

func TestAuthority_issueAndVerify(t *testing.T) {
	authority := authorityOf(t, 1)
	for name, guest := range map[string]Guest{
		"an instance of a runtime": someGuest(),
		"the longest names": {
			Kind: KindRun, Namespace: strings.Repeat("n", 63), Name: strings.Repeat("r", 253), UID: "u", Instance: strings.Repeat("f", 64),
		},
		"nothing at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			token := authority.Issue(guest).Reveal()
			got, err := authority.Verify(token)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(guest, got); diff != "" {
				t.Errorf("guest (-issued +verified):\n%s", diff)
			}
			if again := authorityOf(t, 1).Issue(guest).Reveal(); again != token {
				t.Error("another process with the same key issues another credential")
			}
		})
	}
}

func TestAuthority_refusals(t *testing.T) {
	authority := authorityOf(t, 1)
	token := authority.Issue(someGuest()).Reveal()
	parts := strings.Split(token, ".")
	other := someGuest()
	other.Name = "others"
	foreign := strings.Split(authority.Issue(other).Reveal(), ".")
	resigned := func(text string) string { return text + "." + encoding.EncodeToString(authority.sign(text)) }
	for name, text := range map[string]string{
		"nothing":                         "",
		"a word":                          "token",
		"dots only":                       "..",
		"another key":                     authorityOf(t, 2).Issue(someGuest()).Reveal(),
		"another guest's claims":          parts[0] + "." + foreign[1] + "." + parts[2],
		"another guest's signature":       parts[0] + "." + parts[1] + "." + foreign[2],
		"no signature":                    parts[0] + "." + parts[1] + ".",
		"a shortened signature":           token[:len(token)-4],
		"a later version, unsigned":       "sog2." + parts[1] + "." + parts[2],
		"a later version, signed":         resigned("sog2." + parts[1]),
		"no version, signed":              resigned(parts[1]),
		"claims that are no JSON, signed": resigned(version + "." + encoding.EncodeToString([]byte("{"))),
		"claims that are no text, signed": resigned(version + ".%%"),
		"something before it":             "x" + token,
		"something after it":              token + "A",
		"padding":                         token + "=",
		"more than any credential can be": resigned(version + "." + strings.Repeat("A", maxCredential)),
		"the fingerprint's own signature": "fingerprint." + encoding.EncodeToString(authority.sign("fingerprint")),
	} {
		t.Run(name, func(t *testing.T) {
			if guest, err := authority.Verify(text); err == nil {
				t.Errorf("taken for %+v", guest)
			}
		})
	}
}

// Each single changed character is noticed.
func TestAuthority_tampering(t *testing.T) {
	authority := authorityOf(t, 1)
	token := []byte(authority.Issue(someGuest()).Reveal())
	for i := range token {
		for _, by := range []byte{'A', 'B', '_', '.'} {
			changed := bytes.Clone(token)
			changed[i] = by
			if _, err := authority.Verify(string(changed)); err == nil && by != token[i] {
				t.Fatalf("character %d may be %c", i, by)
			}
		}
	}
}

func FuzzAuthority_verify(f *testing.F) {
	authority := authorityOf(f, 1)
	token := authority.Issue(someGuest()).Reveal()
	for _, seed := range []string{token, token[:40], "sog1.e30.e30", "..", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		guest, err := authority.Verify(text)
		// What verifies is exactly what was issued: there is one text for each guest.
		if err == nil && authority.Issue(guest).Reveal() != text {
			t.Errorf("%q is taken for %+v", text, guest)
		}
	})
}

func TestNewAuthority_keys(t *testing.T) {
	for _, length := range []int{0, 16, 31, 33} {
		if _, err := NewAuthority(make([]byte, length)); err == nil {
			t.Errorf("a key of %d bytes is taken", length)
		}
	}
	if a, b := authorityOf(t, 1).Fingerprint(), authorityOf(t, 2).Fingerprint(); a == b || a != authorityOf(t, 1).Fingerprint() {
		t.Errorf("fingerprints %s and %s", a, b)
	}
}

// Neither credentials nor the key show, however they are printed.
func TestCredential_isNeverShown(t *testing.T) {
	authority := authorityOf(t, 'k')
	credential := authority.Issue(someGuest())
	holder := struct {
		Credential Credential
		Authority  *Authority
	}{credential, authority}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "c", credential, "h", holder, "a", authority)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "c", credential, "h", holder)
	shown := logged.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown += fmt.Sprintf(verb+verb+verb, credential, holder, authority)
	}
	text, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	shown += string(text)
	for _, secret := range []string{credential.Reveal(), credential.Reveal()[20:60], "kkkk", fmt.Sprintf("%x", "kkkk"), "107 107"} {
		if strings.Contains(shown, secret) {
			t.Errorf("%q is shown in %s", secret, shown)
		}
	}
}
