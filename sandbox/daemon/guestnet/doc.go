// Package guestnet is the network of guests that have one, on the daemon's side: a
// TCP/IP stack in user space that stands for every address there is, and a policy
// that says where it dials (contracts/iii-sandbox.md §6). It knows packets, not
// what isolates the guest that they come from.
package guestnet

const (
	// GatewayAddress leads to the host's loopback (contracts/iii-sandbox.md §6).
	GatewayAddress = "100.96.0.1"
	// GuestAddress is every guest's own.
	GuestAddress = "100.96.0.2"
)

// The same addresses as bytes.
var (
	GatewayBytes = [4]byte{100, 96, 0, 1}
	GuestBytes   = [4]byte{100, 96, 0, 2}
)
