// Package shim answers the calls of a sandbox code runner on the bus by doing
// what kubectl would do: it reads and writes custom resources, and waits for
// the controllers (contracts/code-runner.md §§2-6).
//
// Bearer secrets of callers (runtime ids) stay in memory; objects are found by
// their digest. What lists and events show of a runtime is a reference, which
// opens nothing.
package shim

// What the shim makes and deletes, it does in the runs namespace only:
// config/default/runs_role.yaml. Reading, and what reconcilers write too, is in the
// role that is generated from their markers.
