package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

const (
	// MaxBodyBytes bounds the JSON body of one reply. The sandbox daemon drops
	// what a command prints beyond 1 MiB without saying so
	// (contracts/iii-sandbox.md §3.2); staying well below keeps frames whole.
	MaxBodyBytes = 768 << 10

	magic = "SANDBOX-AGENT-REPLY/1"
	// maxHeaderBytes is longer than any header EncodeReply can write.
	maxHeaderBytes = len(magic) + 1 + 20 + 1 + 2*sha256.Size + 1
)

// FrameReason says in which way a frame is damaged.
type FrameReason string

const (
	// FrameMissing: the output does not start with a reply header.
	FrameMissing FrameReason = "Missing"
	// FrameHeader: a header is there but is not well formed.
	FrameHeader FrameReason = "Header"
	// FrameCut: the body is shorter than announced.
	FrameCut FrameReason = "Cut"
	// FrameTrailing: bytes follow the body.
	FrameTrailing FrameReason = "Trailing"
	// FrameDigest: the body is not the one that was sent.
	FrameDigest FrameReason = "Digest"
	// FrameBody: the body is intact but is not a reply.
	FrameBody FrameReason = "Body"
	// FrameTooLarge: the body exceeds MaxBodyBytes.
	FrameTooLarge FrameReason = "TooLarge"
)

// FrameError reports output that is not exactly one intact reply. It never
// quotes the output, which may hold a caller's data.
type FrameError struct {
	Reason FrameReason
	Detail string
}

// Error implements error.
func (e *FrameError) Error() string {
	return fmt.Sprintf("agent reply frame: %s: %s", strings.ToLower(string(e.Reason)), e.Detail)
}

func frameErrorf(reason FrameReason, format string, args ...any) error {
	return &FrameError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// EncodeReply frames a reply: a header line with magic, body length and the
// body's SHA-256, then the JSON body. A body over MaxBodyBytes is a FrameError;
// the agent shortens its reply before it comes to that.
func EncodeReply(reply Reply) ([]byte, error) {
	body, err := Marshal(reply)
	if err != nil {
		return nil, frameErrorf(FrameBody, "encoding: %v", err)
	}
	if len(body) > MaxBodyBytes {
		return nil, frameErrorf(FrameTooLarge, "%d bytes exceed %d", len(body), MaxBodyBytes)
	}
	digest := sha256.Sum256(body)
	frame := make([]byte, 0, maxHeaderBytes+len(body))
	frame = fmt.Appendf(frame, "%s %d %s\n", magic, len(body), hex.EncodeToString(digest[:]))
	return append(frame, body...), nil
}

// DecodeReply reads what EncodeReply wrote. The agent alone owns its standard
// output, so anything before, after or instead of the one frame means that the
// output was cut or is not the agent's, and is a *FrameError.
func DecodeReply(output []byte) (Reply, error) {
	body, err := unframe(output)
	if err != nil {
		return Reply{}, err
	}
	var reply Reply
	if err := json.Unmarshal(body, &reply); err != nil {
		return Reply{}, frameErrorf(FrameBody, "not a reply: %T", err)
	}
	return reply, nil
}

func unframe(output []byte) ([]byte, error) {
	length, digest, body, err := splitHeader(output)
	switch {
	case err != nil:
		return nil, err
	case length > MaxBodyBytes:
		return nil, frameErrorf(FrameTooLarge, "%d bytes announced, %d allowed", length, MaxBodyBytes)
	case len(body) < length:
		return nil, frameErrorf(FrameCut, "%d of %d bytes", len(body), length)
	case len(body) > length:
		return nil, frameErrorf(FrameTrailing, "%d bytes after the body", len(body)-length)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != digest {
		return nil, frameErrorf(FrameDigest, "body does not match its digest")
	}
	return body, nil
}

func splitHeader(output []byte) (length int, digest string, body []byte, err error) {
	if !bytes.HasPrefix(output, []byte(magic+" ")) {
		if len(output) > 0 && bytes.HasPrefix([]byte(magic+" "), output) {
			return 0, "", nil, frameErrorf(FrameCut, "within the header")
		}
		return 0, "", nil, frameErrorf(FrameMissing, "no header at the start of %d bytes", len(output))
	}
	end := bytes.IndexByte(output[:min(len(output), maxHeaderBytes)], '\n')
	if end < 0 {
		if len(output) < maxHeaderBytes {
			return 0, "", nil, frameErrorf(FrameCut, "within the header")
		}
		return 0, "", nil, frameErrorf(FrameHeader, "no end of line")
	}
	fields := strings.Split(string(output[:end]), " ")
	if len(fields) != 3 || len(fields[2]) != 2*sha256.Size {
		return 0, "", nil, frameErrorf(FrameHeader, "want magic, length and digest")
	}
	size, err := strconv.ParseUint(fields[1], 10, 31)
	if err != nil {
		return 0, "", nil, frameErrorf(FrameHeader, "bad length")
	}
	return int(size), fields[2], output[end+1:], nil
}

// Marshal encodes v as JSON without HTML escaping, which would change and
// lengthen what a program printed.
func Marshal(v any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}
