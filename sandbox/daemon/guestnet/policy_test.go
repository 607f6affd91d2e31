package guestnet

import (
	"net/netip"
	"testing"
)

func TestPolicy_allowsAddress(t *testing.T) {
	cases := map[string]struct {
		address string
		want    bool
	}{
		"a public address":             {"9.9.9.9", true},
		"a private one":                {"192.168.1.1", false},
		"another private one":          {"172.20.0.1", false},
		"the loopback":                 {"127.0.0.1", false},
		"a cloud's metadata":           {"169.254.169.254", false},
		"carrier space, so all guests": {"100.96.0.6", false},
		"this network":                 {"0.0.0.0", false},
		"multicast":                    {"224.0.0.1", false},
		"broadcast":                    {"255.255.255.255", false},
		"documentation":                {"203.0.113.7", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := new(policy).allowsAddress(netip.MustParseAddr(tc.address)); got != tc.want {
				t.Errorf("%s: %v", tc.address, got)
			}
		})
	}
}
