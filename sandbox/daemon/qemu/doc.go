// Package qemu is a back end whose guests are virtual machines: a kernel of its own
// stands between a guest and this machine. QEMU runs them, by hardware
// virtualization where a probe shows that it works, else by emulation.
//
//	daemon                     host
//	└─ QEMU                    a user of its own, a folder of its own as root, no network
//	   └─ process 1            this binary again, in the machine; a guest of package
//	      │                    namespaces is made here, and its agent and programs are
//	      └─ agent …           its children
//
// So the second layer of every guest is that of package namespaces, with the same
// agent. Daemon and process 1 speak by a virtual serial port (package remote); a
// guest with a network has a second one that carries its packets to the daemon,
// whose stack and policy are those of package guestnet. There is no network card.
//
// A machine that was booted once is kept as a file, and the guests after it start
// from there: process 1 has made its mounts by then and waits to be told what to be.
// Each is then given fresh randomness and the time.
package qemu
