package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// CommandLink opens a link, over which calls come without an execution each.
const CommandLink = "link"

// LinkRequest has the guest's supervisor open both ends of a link: two data
// channels of the bus (contracts/iii-bus.md §8). Its address and credential are
// those of the guest's III_URL; without one the reply's error is NoBus. Another
// link of the guest ends with it. The reply says that the channels are open.
type LinkRequest struct {
	// calls is read by the guest, replies is written by it. Both are secrets.
	Calls   LinkEnd `json:"calls"`
	Replies LinkEnd `json:"replies"`
	// programDigest: SHA-256 of the program that opens them, lower-case hexadecimal.
	// Another one is not used; the reply's error is NoProgram.
	ProgramDigest string `json:"programDigest"`
}

// LinkEnd is one end of a data channel.
type LinkEnd struct {
	ChannelID string `json:"channelId"`
	AccessKey string `json:"accessKey"`
}

const (
	// NoBus: the guest has no way to the bus, so that it can open no link.
	NoBus FailureKind = "NoBus"
	// NoProgram: the program that opens links is not in the guest, or is another.
	// It is to be written, and the request to be repeated.
	NoProgram FailureKind = "NoProgram"
)

// LinkProgram is what the agent tells the program that opens the channels. Both
// addresses are secrets.
type LinkProgram struct {
	CallsURL   string `json:"callsUrl"`
	RepliesURL string `json:"repliesUrl"`
}

// LinkKind says what a packet of a link is.
type LinkKind byte

// Packets of a link. Each belongs to the call whose number it has; LinkPing and
// LinkPong belong to none.
const (
	// LinkCall, to the guest: a CallRequest. Its number is new on this link, and
	// its Token is of no use: LinkCancel ends the call.
	LinkCall LinkKind = 'C'
	// LinkCancel, to the guest: ends a call, which answers all the same.
	LinkCancel LinkKind = 'X'
	// LinkPing, to the guest: answered with LinkPong at once.
	LinkPing LinkKind = '?'
	// LinkPong, from the guest.
	LinkPong LinkKind = 'O'
	// LinkReply, from the guest: the framed reply of a call, as DecodeReply reads it.
	LinkReply LinkKind = 'P'
	// LinkNotRun, from the guest: the handler has not run for this call and will
	// not, since nothing was ready for it. It is to be called by an execution.
	LinkNotRun LinkKind = 'N'
)

// MaxLinkBytes bounds the body of a packet: a reply's, with its header.
const MaxLinkBytes = 1 << 20

// linkHeaderBytes are kind, number and length.
const linkHeaderBytes = 9

// LinkPacket is one message of a link.
type LinkPacket struct {
	Kind   LinkKind
	Number uint32
	Body   []byte
}

// ErrLinkPacket says that what came over a link is no packet.
var ErrLinkPacket = errors.New("malformed packet of a link")

// ReadLinkPacket reads the next packet. io.EOF means that the link has ended
// between two packets.
func ReadLinkPacket(source *bufio.Reader) (LinkPacket, error) {
	var header [linkHeaderBytes]byte
	if _, err := io.ReadFull(source, header[:]); err != nil {
		return LinkPacket{}, err
	}
	size := binary.BigEndian.Uint32(header[5:])
	if size > MaxLinkBytes {
		return LinkPacket{}, fmt.Errorf("%w: %d bytes", ErrLinkPacket, size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(source, body); err != nil {
		return LinkPacket{}, io.ErrUnexpectedEOF
	}
	return LinkPacket{Kind: LinkKind(header[0]), Number: binary.BigEndian.Uint32(header[1:]), Body: body}, nil
}

// Append appends the packet as it goes over a link. A Body over MaxLinkBytes is an
// ErrLinkPacket.
func (p LinkPacket) Append(to []byte) ([]byte, error) {
	if len(p.Body) > MaxLinkBytes {
		return to, fmt.Errorf("%w: %d bytes", ErrLinkPacket, len(p.Body))
	}
	to = append(to, byte(p.Kind))
	to = binary.BigEndian.AppendUint32(to, p.Number)
	to = binary.BigEndian.AppendUint32(to, uint32(len(p.Body))) //nolint:gosec // Bounded above.
	return append(to, p.Body...), nil
}
