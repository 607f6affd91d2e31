package main

import (
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// inlineResultBytes is the largest result inside a reply; it leaves room for
	// logs. Larger ones go by file.
	inlineResultBytes = 512 << 10
	// replyMargin is kept free when texts are shortened to fit.
	replyMargin = 4 << 10
)

// fit frames a reply. Texts that do not fit, counted as JSON, which may take six
// bytes for one, are shortened with a marker, the longest first.
func fit(reply wire.Reply) ([]byte, error) {
	for range 16 {
		size, err := encodedSize(reply)
		if err != nil {
			return nil, err
		}
		if size <= wire.MaxBodyBytes || !shortenLongest(&reply, size-wire.MaxBodyBytes+replyMargin) {
			break
		}
	}
	return wire.EncodeReply(reply)
}

// shortenLongest takes about excess encoded bytes from the longest text, at most
// half of it at a time. False if there is nothing left to shorten.
func shortenLongest(reply *wire.Reply, excess int) bool {
	texts := []text{{&reply.Logs, &reply.LogsTruncated}}
	if reply.Run != nil {
		texts = append(texts, text{&reply.Run.Stdout, &reply.Run.StdoutTruncated}, text{&reply.Run.Stderr, &reply.Run.StderrTruncated})
	}
	longest, longestSize := texts[0], 0
	for _, candidate := range texts {
		if size, _ := encodedSize(*candidate.value); size > longestSize {
			longest, longestSize = candidate, size
		}
	}
	const smallest = 1 << 10
	if longestSize < smallest {
		return false
	}
	kept := max(longestSize-excess, longestSize/2)
	*longest.value = shorten(*longest.value, int(int64(len(*longest.value))*int64(kept)/int64(longestSize)))
	*longest.truncated = true
	return true
}

type text struct {
	value     *string
	truncated *bool
}

func encodedSize(value any) (int, error) {
	encoded, err := wire.Marshal(value)
	return len(encoded), err
}
