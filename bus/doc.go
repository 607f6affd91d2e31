// Package bus is a worker's client of the iii bus: it keeps one connection to
// the engine, answers calls of the functions registered with it, calls
// functions of others, binds and provides triggers, and opens data channels.
//
// The wire is that of contracts/iii-bus.md. What is registered is kept and
// replayed on every new connection; what is called is never repeated.
package bus
