// Package shim answers the calls of a sandbox code runner on the bus by doing
// what kubectl would do: it reads and writes custom resources, and waits for
// the controllers (contracts/code-runner.md §§2-6).
//
// Bearer secrets of callers (runtime ids) stay in memory; objects are found by
// their digest.
package shim

// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxfunctions,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxruntimes,verbs=get;create;delete
// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxruns,verbs=create;delete
// ConfigMaps of sources are written in the runs namespace only:
// config/default/runs_role.yaml.
