// Package link keeps links to guests: connections over which the calls of
// functions come without an execution of the agent each (guest/wire). A Set opens
// them where calls are frequent, uses them while they are faster than executions,
// and closes them again.
package link
