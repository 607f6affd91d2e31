package qemu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pierrec/lz4/v4"
)

// Fields of a bzImage's header (the kernel's Documentation/x86/boot.rst).
const (
	setupSectors  = 0x1f1
	headerMagic   = 0x202
	payloadOffset = 0x248
	payloadLength = 0x24c
	sectorBytes   = 512
	// sizeBytes is the length of the number that the kernel's build puts behind a
	// compressed payload.
	sizeBytes = 4
	// maxKernelBytes bounds an unpacked kernel.
	maxKernelBytes = 256 << 20
)

var lz4Magic = []byte{0x02, 0x21, 0x4c, 0x18}

// unpackKernel returns the ELF file inside a bzImage, which QEMU starts directly:
// no firmware runs, and no loader that would unpack it anew for every machine.
func unpackKernel(image []byte) ([]byte, error) {
	if len(image) < payloadLength+4 || string(image[headerMagic:headerMagic+4]) != "HdrS" {
		return nil, errors.New("this is no bzImage")
	}
	setup := int(image[setupSectors])
	if setup == 0 {
		setup = 4
	}
	start := (setup+1)*sectorBytes + int(binary.LittleEndian.Uint32(image[payloadOffset:]))
	end := start + int(binary.LittleEndian.Uint32(image[payloadLength:]))
	if start < 0 || end < start+sizeBytes || end > len(image) {
		return nil, errors.New("the kernel's payload is not within its file")
	}
	payload := image[start : end-sizeBytes]
	if !bytes.HasPrefix(payload, lz4Magic) {
		return nil, fmt.Errorf("the kernel's payload begins with %x, not as LZ4 does; Debian's cloud kernels are compressed with it", payload[:min(4, len(payload))])
	}
	kernel, err := io.ReadAll(io.LimitReader(lz4.NewReader(bytes.NewReader(payload)), maxKernelBytes))
	if err != nil {
		return nil, fmt.Errorf("unpacking the kernel: %w", err)
	}
	if want := binary.LittleEndian.Uint32(image[end-sizeBytes : end]); int(want) != len(kernel) {
		return nil, fmt.Errorf("the unpacked kernel has %d bytes where %d were due", len(kernel), want)
	}
	if !bytes.HasPrefix(kernel, []byte("\x7fELF")) {
		return nil, errors.New("the kernel's payload is no ELF file")
	}
	return kernel, nil
}

// kernelFiles are where a kernel lies.
type kernelFiles struct {
	// image is a bzImage, modules the folder of its modules.
	image, modules string
}

// findKernel takes the newest of Debian's cloud kernels below root.
func findKernel(root string) (kernelFiles, error) {
	images, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*-cloud-amd64"))
	if err != nil {
		return kernelFiles{}, err
	}
	slices.SortFunc(images, compareVersions)
	for _, image := range slices.Backward(images) {
		version := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
		for _, folder := range []string{"lib/modules", "usr/lib/modules"} {
			modules := filepath.Join(root, folder, version)
			if info, err := os.Stat(modules); err == nil && info.IsDir() {
				return kernelFiles{image: image, modules: modules}, nil
			}
		}
	}
	return kernelFiles{}, fmt.Errorf("there is no kernel %s with its modules", filepath.Join(root, "boot/vmlinuz-*-cloud-amd64"))
}

// compareVersions orders names with numbers in them by the numbers.
func compareVersions(a, b string) int {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' }
	for a != "" && b != "" {
		textA, textB := strings.IndexFunc(a, isDigit), strings.IndexFunc(b, isDigit)
		if textA < 0 || textB < 0 || a[:textA] != b[:textB] {
			return strings.Compare(a, b)
		}
		a, b = strings.TrimLeft(a[textA:], "0"), strings.TrimLeft(b[textB:], "0")
		numberA, numberB := digits(a), digits(b)
		if len(numberA) != len(numberB) {
			return len(numberA) - len(numberB)
		}
		if order := strings.Compare(numberA, numberB); order != 0 {
			return order
		}
		a, b = a[len(numberA):], b[len(numberB):]
	}
	return strings.Compare(a, b)
}

// digits is the number that a text begins with.
func digits(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
}
