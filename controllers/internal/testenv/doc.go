// Package testenv starts a real API server with this repository's CRDs for the
// suites of the controllers. Nothing in it skips: a machine without the control
// plane fails with the command that builds it.
package testenv
