package guestnet

import (
	"io"
	"sync"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// DeviceMTU is the size of packets, far over the usual 1500: the packets never meet a real wire, and
// every one costs a system call.
const DeviceMTU = 65520

// device is a guest's network device as a link of the daemon's own stack: one
// read or write a packet.
type device struct {
	packets  io.ReadWriteCloser
	attached atomic.Bool
	reading  sync.WaitGroup
	closed   sync.Once
}

var _ stack.LinkEndpoint = (*device)(nil)

// Attach starts the reading of packets; a nil dispatcher ends it.
func (d *device) Attach(dispatcher stack.NetworkDispatcher) {
	if dispatcher == nil {
		d.Close()
		return
	}
	d.attached.Store(true)
	d.reading.Go(func() { d.read(dispatcher) })
}

func (d *device) read(dispatcher stack.NetworkDispatcher) {
	packet := make([]byte, DeviceMTU)
	for {
		n, err := d.packets.Read(packet)
		if err != nil {
			return
		}
		if n == 0 || header.IPVersion(packet[:n]) != header.IPv4Version {
			continue
		}
		content := stack.NewPacketBuffer(stack.PacketBufferOptions{
			Payload: buffer.MakeWithData(append([]byte{}, packet[:n]...)),
		})
		dispatcher.DeliverNetworkPacket(ipv4.ProtocolNumber, content)
		content.DecRef()
	}
}

// WritePackets hands packets to the guest.
func (d *device) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	written := 0
	for _, packet := range list.AsSlice() {
		view := packet.ToView()
		_, err := d.packets.Write(view.AsSlice())
		view.Release()
		if err != nil {
			return written, &tcpip.ErrAborted{}
		}
		written++
	}
	return written, nil
}

// Close ends the reading. Letting go of the device takes the kernel tens of
// milliseconds.
func (d *device) Close() {
	d.closed.Do(func() {
		d.attached.Store(false)
		_ = d.packets.Close()
	})
}

func (d *device) Wait()            { d.reading.Wait() }
func (d *device) IsAttached() bool { return d.attached.Load() }

func (d *device) MTU() uint32                             { return DeviceMTU }
func (d *device) SetMTU(uint32)                           {}
func (d *device) MaxHeaderLength() uint16                 { return 0 }
func (d *device) LinkAddress() tcpip.LinkAddress          { return "" }
func (d *device) SetLinkAddress(tcpip.LinkAddress)        {}
func (d *device) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }
func (d *device) AddHeader(*stack.PacketBuffer)           {}
func (d *device) ParseHeader(*stack.PacketBuffer) bool    { return true }
func (d *device) SetOnCloseAction(func())                 {}

// Capabilities: the kernel made the packets, so that their sums need no check.
func (d *device) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}
