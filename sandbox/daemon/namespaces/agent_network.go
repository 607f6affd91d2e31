package namespaces

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestnet"
)

const (
	// listenBacklog holds bursts of connects that the daemon has yet to accept.
	listenBacklog = 4096
)

// networkDescriptors are handed to the daemon.
type networkDescriptors struct {
	listeners []int
	// device is -1 without one.
	device int
}

func (n networkDescriptors) all() []int {
	fds := append([]int{}, n.listeners...)
	if n.device >= 0 {
		fds = append(fds, n.device)
	}
	return fds
}

// makeNetwork brings the loopback up and, when asked, makes either a device for
// all traffic or listening sockets that stand for the host's ports. Without
// them there is nothing but the loopback.
func makeNetwork(config bootConfig) (made networkDescriptors, err error) {
	made.device = -1
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return made, err
	}
	defer unix.Close(socket)
	if err := bringUp(socket, "lo"); err != nil {
		return made, err
	}
	if config.Outbound {
		made.device, err = makeDevice(socket)
		return made, err
	}
	if len(config.Ports) > 0 {
		made.listeners, err = listenAsGateway(socket, config.Ports)
	}
	return made, err
}

// listenAsGateway gives the loopback the gateway's address and listens there.
func listenAsGateway(socket int, ports []int) ([]int, error) {
	if err := setAddress(socket, unix.SIOCSIFADDR, "lo:1", guestnet.GatewayBytes); err != nil {
		return nil, err
	}
	if err := setAddress(socket, unix.SIOCSIFNETMASK, "lo:1", [4]byte{255, 255, 255, 255}); err != nil {
		return nil, err
	}
	var listeners []int
	for _, port := range ports {
		listener, err := listenOn(port)
		if err != nil {
			closeAll(listeners)
			return nil, fmt.Errorf("listening for port %d: %w", port, err)
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

func listenOn(port int) (int, error) {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(listener, &unix.SockaddrInet4{Port: port, Addr: guestnet.GatewayBytes})
	}
	if err == nil {
		err = unix.Listen(listener, listenBacklog)
	}
	if err != nil {
		_ = unix.Close(listener)
		return -1, err
	}
	return listener, nil
}

func bringUp(socket int, device string) error {
	request, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, request); err != nil {
		return err
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

func setAddress(socket int, what uint, device string, address [4]byte) error {
	request, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	if err := request.SetInet4Addr(address[:]); err != nil {
		return err
	}
	return unix.IoctlIfreq(socket, what, request)
}

// tunnel is the device node, opened while the agent may still do so.
var tunnel = -1

func openTunnel(wanted bool) (err error) {
	if wanted {
		tunnel, err = unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	return err
}

const (
	tunDevice  = "/dev/net/tun"
	deviceName = "eth0"
)

// outboundPossible says whether this process may open network devices.
func outboundPossible() bool {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// makeDevice gives the guest's network one device with a route to everything,
// whose packets the holder of the returned descriptor carries. The device
// belongs to the network namespace in which the node was opened.
func makeDevice(socket int) (int, error) {
	request, err := unix.NewIfreq(deviceName)
	if err != nil {
		return -1, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(tunnel, unix.TUNSETIFF, request); err != nil {
		return -1, fmt.Errorf("making the device: %w", err)
	}
	if request, err = unix.NewIfreq(deviceName); err != nil {
		return -1, err
	}
	request.SetUint32(guestnet.DeviceMTU)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFMTU, request); err != nil {
		return -1, fmt.Errorf("setting the packet size: %w", err)
	}
	err = errors.Join(
		setAddress(socket, unix.SIOCSIFADDR, deviceName, guestnet.GuestBytes),
		setAddress(socket, unix.SIOCSIFNETMASK, deviceName, [4]byte{255, 255, 255, 252}),
		bringUp(socket, deviceName),
		addDefaultRoute(socket),
	)
	return tunnel, err
}

// route is the kernel's struct rtentry.
type route struct {
	_           uint64
	destination unix.RawSockaddrInet4
	gateway     unix.RawSockaddrInet4
	mask        unix.RawSockaddrInet4
	flags       uint16
	_           int16
	_           uint64
	_           unsafe.Pointer
	_           int16
	_           *byte
	_, _        uint64
	_           uint16
}

func addDefaultRoute(socket int) error {
	r := route{flags: unix.RTF_UP | unix.RTF_GATEWAY}
	r.destination.Family, r.mask.Family = unix.AF_INET, unix.AF_INET
	r.gateway = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: guestnet.GatewayBytes}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCADDRT, uintptr(unsafe.Pointer(&r)))
	if errno != 0 {
		return fmt.Errorf("adding the route: %w", errno)
	}
	return nil
}
