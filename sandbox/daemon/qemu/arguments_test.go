package qemu

import (
	"slices"
	"strings"
	"testing"
)

func TestLayout_arguments(t *testing.T) {
	anew := layout{
		accelerator: emulation, cpus: 2, memoryMiB: 256, firmware: "/firmware", kernel: "/vmlinux", initial: "/initial",
		fds: descriptors{control: 3, images: []int{4, 5}, monitor: 6},
	}
	restored := anew
	restored.fds = descriptors{control: 3, network: 4, images: []int{5, 6}, state: 7}
	fast := anew
	fast.accelerator = hardware
	for name, tc := range map[string]struct {
		layout    layout
		has, lack []string
	}{
		"always": {anew, []string{
			"-nodefaults", "-no-user-config", "-no-reboot", "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
			"-smp 2", "-m 368M", "-L /firmware", "-kernel /vmlinux", "-initrd /initial",
			"socket,id=control,fd=3", "chardev=control,name=sandbox.control",
			"-add-fd fd=4,set=0", "-add-fd fd=5,set=1", "filename=/dev/fdset/1,read-only=on",
		}, []string{"netdev", "-net ", "virtio-net", "vsock", "hostfwd"}},
		"anew, without a network": {anew, []string{"-accel tcg", "-cpu max", "socket,id=monitor,fd=6", "-mon chardev=monitor,mode=control"}, []string{"incoming", "network"}},
		"from a state":            {restored, []string{"-incoming fd:7", "socket,id=network,fd=4", "name=sandbox.network"}, []string{"-mon ", "monitor"}},
		"by hardware":             {fast, []string{"-accel kvm", "-cpu host"}, []string{"tcg"}},
	} {
		t.Run(name, func(t *testing.T) {
			line := strings.Join(tc.layout.arguments(), " ")
			for _, text := range tc.has {
				if !strings.Contains(line, text) {
					t.Errorf("%q is missing in %s", text, line)
				}
			}
			for _, text := range tc.lack {
				if strings.Contains(line, text) {
					t.Errorf("%q is in %s", text, line)
				}
			}
		})
	}
}

// TestLayout_arguments_devices wants a restored machine to have the devices of the
// one whose state it gets, in the same order.
func TestLayout_arguments_devices(t *testing.T) {
	saved := layout{accelerator: emulation, cpus: 1, memoryMiB: 64, fds: descriptors{control: 3, network: 4, images: []int{5, 6}, monitor: 7}}
	restored := saved
	restored.fds = descriptors{control: 3, network: 4, images: []int{5, 6}, state: 7}
	if a, b := devices(saved), devices(restored); !slices.Equal(a, b) || len(a) != 5 {
		t.Errorf("%q and %q", a, b)
	}
}

func devices(l layout) []string {
	var found []string
	list := l.arguments()
	for i, word := range list {
		if word == "-device" {
			found = append(found, list[i+1])
		}
	}
	return found
}
