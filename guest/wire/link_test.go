package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestLinkPacket_roundTrip(t *testing.T) {
	sent := []LinkPacket{
		{Kind: LinkCall, Number: 1, Body: []byte(`{"timeoutMs":1}`)},
		{Kind: LinkCancel, Number: 1<<32 - 1, Body: []byte{}},
		{Kind: LinkReply, Number: 7, Body: make([]byte, MaxLinkBytes)},
	}
	var line []byte
	for _, each := range sent {
		var err error
		if line, err = each.Append(line); err != nil {
			t.Fatal(err)
		}
	}
	reader := bufio.NewReader(bytes.NewReader(line))
	for _, each := range sent {
		got, err := ReadLinkPacket(reader)
		if err != nil || got.Kind != each.Kind || got.Number != each.Number || !bytes.Equal(got.Body, each.Body) {
			t.Fatalf("sent %c %d, got %c %d %v", each.Kind, each.Number, got.Kind, got.Number, err)
		}
	}
	if _, err := ReadLinkPacket(reader); !errors.Is(err, io.EOF) {
		t.Errorf("after the last packet: %v", err)
	}
}

func TestLinkPacket_bounds(t *testing.T) {
	if _, err := (LinkPacket{Body: make([]byte, MaxLinkBytes+1)}).Append(nil); !errors.Is(err, ErrLinkPacket) {
		t.Errorf("a body that is too large: %v", err)
	}
	whole, _ := LinkPacket{Kind: LinkReply, Number: 3, Body: []byte("body")}.Append(nil)
	for size := 1; size < len(whole); size++ {
		_, err := ReadLinkPacket(bufio.NewReader(bytes.NewReader(whole[:size])))
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
	}
	huge := append([]byte{byte(LinkReply), 0, 0, 0, 1}, 0xff, 0xff, 0xff, 0xff)
	if _, err := ReadLinkPacket(bufio.NewReader(bytes.NewReader(huge))); !errors.Is(err, ErrLinkPacket) {
		t.Errorf("an announced body that is too large: %v", err)
	}
}
