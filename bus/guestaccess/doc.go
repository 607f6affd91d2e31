// Package guestaccess makes guests strangers on the bus (design rule 13): each
// sandbox with bus access gets a credential of its own, and the functions that
// the engine's guest listener asks (contracts/iii-bus.md §9) decide by it who
// may connect, what a guest may call, and what it may register.
//
// A credential is an identity with a signature, so nothing has to be stored:
// any later leader knows it again. It ends with the sandbox that it names.
package guestaccess
