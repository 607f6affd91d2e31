package qemu

import (
	"fmt"
	"strconv"
)

// accelerator is how a machine's processor is made.
type accelerator string

const (
	// hardware needs a virtual machine monitor in the kernel that really boots.
	hardware accelerator = "kvm"
	// emulation works everywhere, several times slower.
	emulation accelerator = "tcg"
)

// overheadMiB is what a machine has beyond the memory of its guest, which a control
// group bounds: for its kernel, the initial file system and process 1.
const overheadMiB = 112

// Descriptors that QEMU inherits, in the order of layout.
type descriptors struct {
	control int
	images  []int
	// network, monitor and state are 0 where there is none.
	network, monitor, state int
}

// kernelOptions are the kernel's command line. What an emulated processor reports
// of its flaws is not worth their cure.
const kernelOptions = "console=ttyS0 quiet reboot=t panic=-1 mitigations=off random.trust_cpu=on no_timer_check"

// hardware of a machine and where its files lie, as QEMU sees the paths.
type layout struct {
	accelerator     accelerator
	cpus, memoryMiB int
	firmware        string
	kernel, initial string
	fds             descriptors
}

// arguments are QEMU's, without its name. A state fits only a machine with the same
// devices in the same order.
func (l layout) arguments() []string {
	processor := "max"
	if l.accelerator == hardware {
		processor = "host"
	}
	list := []string{
		"-name", "sandbox", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-M", "q35,hpet=on,vmport=off,usb=off,smbus=off", "-accel", string(l.accelerator), "-cpu", processor,
		"-smp", strconv.Itoa(l.cpus), "-m", fmt.Sprintf("%dM", l.memoryMiB+overheadMiB),
		"-L", l.firmware, "-kernel", l.kernel, "-initrd", l.initial, "-append", kernelOptions,
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-device", "virtio-serial-pci,id=ports,max_ports=3",
	}
	list = append(list, serialPort("control", controlPort, 1, l.fds.control)...)
	if l.fds.network != 0 {
		list = append(list, serialPort("network", networkPort, 2, l.fds.network)...)
	}
	for i, fd := range l.fds.images {
		list = append(list, drive(i, fd)...)
	}
	if l.fds.monitor != 0 {
		list = append(list, "-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", l.fds.monitor), "-mon", "chardev=monitor,mode=control")
	}
	if l.fds.state != 0 {
		list = append(list, "-incoming", fmt.Sprintf("fd:%d", l.fds.state))
	}
	return list
}

func serialPort(id, name string, number, fd int) []string {
	return []string{
		"-chardev", fmt.Sprintf("socket,id=%s,fd=%d", id, fd),
		"-device", fmt.Sprintf("virtserialport,bus=ports.0,nr=%d,chardev=%s,name=%s", number, id, name),
	}
}

// drive shows an open file as a read-only disk.
func drive(i, fd int) []string {
	return []string{
		"-add-fd", fmt.Sprintf("fd=%d,set=%d", fd, i),
		"-blockdev", fmt.Sprintf("driver=file,node-name=image%d,filename=/dev/fdset/%d,read-only=on,auto-read-only=off,locking=off", i, i),
		"-device", fmt.Sprintf("virtio-blk-pci,drive=image%d", i),
	}
}
