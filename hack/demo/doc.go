// Command demo starts the whole stack, does with it what its users would do, with
// kubectl and with a program made with the published iii-sdk, and checks every
// answer. Its last line is one JSON object; the exit code is 0 only if everything
// was as it should be. `make demo` builds what it needs.
package main
