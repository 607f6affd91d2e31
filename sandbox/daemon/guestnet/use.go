package guestnet

import (
	"io"
	"sync/atomic"
	"time"
)

// networkUse remembers when a guest's network last carried something: payload of
// TCP in either direction, or a question for a name. Keep-alives and bare
// acknowledgements do not come this far (contracts/iii-sandbox.md §6). The zero
// value means never.
type networkUse struct{ at atomic.Int64 }

func (u *networkUse) mark() { u.at.Store(time.Now().UnixNano()) }

func (u *networkUse) last() time.Time {
	if at := u.at.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// usedReader marks the use of the network whenever something was read.
type usedReader struct {
	source io.Reader
	use    *networkUse
}

// Read implements io.Reader.
func (r *usedReader) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	if n > 0 {
		r.use.mark()
	}
	return n, err
}
