// Package namespaces is the daemon's default back end: a guest is a set of
// Linux namespaces made by this very program, with nothing to install.
//
// One guest is three layers of processes:
//
//	daemon                   host
//	└─ agent                 this binary again: own user, mount, network, ipc,
//	   │                     uts, cgroup and outer process namespace
//	   ├─ process 1          of the guest's inner process namespace: sleeps
//	   └─ the guest's programs
//
// The agent sits one process namespace above the programs it starts, so they
// have no number by which to signal, trace or inspect it. Programs run without
// capabilities, without new privileges and behind a system call filter. When the
// agent ends, whatever the reason, the kernel ends the rest; when the daemon
// ends, the agent does.
//
// Daemon and agent share a socket on which every request carries a socket of
// its own, and an exec also the pipes of its streams, so that no request waits
// behind another and output never passes through the agent.
package namespaces
