// Package again tests that hack/test.sh runs what failed once more, and tells.
package again
