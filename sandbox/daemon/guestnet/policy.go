package guestnet

import (
	"net"
	"net/netip"
	"slices"
)

// policy says which addresses a guest with a network reaches.
type policy struct {
	// ports are those of the host's loopback that the gateway leads to.
	ports []int
}

func (p policy) allowsPort(port int) bool { return slices.Contains(p.ports, port) }

// reserved are the ranges that are no public addresses, beyond those that
// netip.Addr knows by itself.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // carriers, and the guests' own
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
}

// allowsAddress lets only public addresses pass that are not this host's own:
// its network, its cloud's metadata and its other guests stay out of reach.
func (p policy) allowsAddress(address netip.Addr) bool {
	if !address.IsGlobalUnicast() || address.IsPrivate() {
		return false
	}
	for _, prefix := range reserved {
		if prefix.Contains(address) {
			return false
		}
	}
	return !ownAddress(address)
}

// ownAddress asks each time, as a host's addresses change. When it cannot tell
// it says yes.
func ownAddress(address netip.Addr) bool {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, entry := range own {
		if prefix, err := netip.ParsePrefix(entry.String()); err == nil && prefix.Addr() == address {
			return true
		}
	}
	return false
}
