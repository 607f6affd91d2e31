// Package wire is the language between the operator and the agent inside a
// sandbox: one JSON request on the agent's standard input, one framed JSON
// reply on its standard output. Both sides import it, so it uses the standard
// library only and knows nothing of sandboxes or the bus.
package wire
