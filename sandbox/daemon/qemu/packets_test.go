package qemu

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestnet"
)

func TestPacketPort(t *testing.T) {
	ours, theirs := pair(t)
	near, far := &packetPort{stream: ours}, &packetPort{stream: theirs}
	packets := [][]byte{[]byte("a"), bytes.Repeat([]byte("b"), guestnet.DeviceMTU), []byte("ccc")}
	go func() {
		for _, packet := range packets {
			_, _ = near.Write(packet)
		}
		_ = near.Close()
	}()
	buffer := make([]byte, guestnet.DeviceMTU)
	for i, want := range packets {
		n, err := far.Read(buffer)
		if err != nil || !bytes.Equal(buffer[:n], want) {
			t.Errorf("packet %d has %d bytes, %v", i, n, err)
		}
	}
	if _, err := far.Read(buffer); !errors.Is(err, io.EOF) {
		t.Errorf("after the last the error is %v", err)
	}
}

func TestPacketPort_larger_than_any(t *testing.T) {
	ours, theirs := pair(t)
	go func() { _, _ = (&packetPort{stream: ours}).Write(make([]byte, guestnet.DeviceMTU+1)) }()
	if n, err := (&packetPort{stream: theirs}).Read(make([]byte, 99)); err == nil {
		t.Errorf("read %d bytes", n)
	}
}

func TestPump(t *testing.T) {
	a, b := pair(t)
	c, d := pair(t)
	go pump(&packetPort{stream: c}, &packetPort{stream: b})
	if _, err := (&packetPort{stream: a}).Write([]byte("packet")); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 99)
	if n, err := (&packetPort{stream: d}).Read(buffer); err != nil || string(buffer[:n]) != "packet" {
		t.Errorf("carried %q, %v", buffer[:n], err)
	}
}
