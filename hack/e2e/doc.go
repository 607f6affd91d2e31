// Package e2e tests the whole of sandbox-operator on real parts: one stack with
// kube-apiserver, engine, sandbox daemon and operator, each a process of its own
// but the engine, real sandboxes, and kubectl and workers on the bus as users.
//
// Every spec works in a namespace and under an id prefix of its own and leaves
// nothing behind: after each one there is no object, no sandbox and no further
// function on the bus, and no object ever holds a secret. The end of the suite
// looks for processes, mounts, control groups, files and goroutines.
package e2e
