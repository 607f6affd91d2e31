package link

import (
	"bufio"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func (l *link) read() {
	source := bufio.NewReaderSize(l.ends, readBytes)
	for {
		packet, err := wire.ReadLinkPacket(source)
		if err != nil || !l.received(packet) {
			l.fail()
			return
		}
	}
}

// received acts on a packet. False: it is none that a guest may send.
func (l *link) received(packet wire.LinkPacket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := l.pinged
	l.heard, l.pinged = l.now(), false
	switch packet.Kind {
	case wire.LinkPong:
	case wire.LinkReply, wire.LinkNotRun:
		var c *call
		if c, wanted = l.calls[packet.Number]; !wanted || !c.sent {
			wanted = false
			break
		}
		var err error
		if packet.Kind == wire.LinkNotRun {
			err = ErrNotRun
		}
		l.answer(c, packet.Body, err)
	default:
		return false
	}
	if !wanted {
		l.strays++
	}
	return l.strays <= maxStrays
}

func (l *link) write() {
	var buffer []byte
	for {
		select {
		case <-l.wake:
		case <-l.done:
			return
		}
		var err error
		if buffer, err = l.flush(buffer); err != nil {
			l.fail()
			return
		}
		if cap(buffer) > 2*maxWriteBytes {
			buffer = nil
		}
	}
}

// flush writes all that waits, by way of a buffer that it returns.
func (l *link) flush(buffer []byte) ([]byte, error) {
	for l.permit() {
		if buffer = l.take(buffer[:0]); len(buffer) == 0 {
			return buffer, nil
		}
		if _, err := l.ends.Write(buffer); err != nil {
			return nil, err
		}
	}
	return nil, errBroken
}

// take appends the packets that are to be written next, in one piece. Calls whose
// caller has given up are left out.
func (l *link) take(buffer []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for _, next := range l.queue {
		if len(buffer) > 0 && len(buffer)+len(next.packet.Body) > maxWriteBytes {
			break
		}
		count++
		l.queuedBytes -= len(next.packet.Body)
		if next.call != nil && !l.departs(next.call) {
			continue
		}
		buffer, _ = next.packet.Append(buffer) // what is too large was never queued
	}
	rest := copy(l.queue, l.queue[count:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return buffer
}

// departs says whether a call is to be written, and that it is. The caller holds the
// lock.
func (l *link) departs(c *call) bool {
	if _, pending := l.calls[c.number]; !pending {
		return false
	}
	if c.ctx.Err() != nil {
		l.answer(c, nil, ErrNotRun)
		return false
	}
	c.sent = true
	return true
}
