package qemu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// programs are what this back end needs and does not bring.
type programs struct {
	qemu, makeErofs string
	kernel          kernelFiles
	// libraries are the folders where theirs may lie, firmware those of QEMU's data.
	libraries, firmware []string
	// modules is the folder of QEMU's own loadable parts; it may be missing.
	modules string
}

// packages are Debian's names, with what of them is looked for.
const packages = "qemu-system-x86, linux-image-cloud-amd64 and erofs-utils"

// findPrograms looks below root, where packages were installed or unpacked.
func findPrograms(root string) (programs, error) {
	p := programs{}
	var missing []string
	look := func(what, name string, candidates ...string) string {
		for _, candidate := range candidates {
			if path := filepath.Join(root, candidate); isFile(path) {
				return path
			}
		}
		missing = append(missing, fmt.Sprintf("%s (package %s)", what, name))
		return ""
	}
	p.qemu = look("qemu-system-x86_64", "qemu-system-x86", "usr/bin/qemu-system-x86_64", "usr/local/bin/qemu-system-x86_64")
	p.makeErofs = look("mkfs.erofs", "erofs-utils", "usr/bin/mkfs.erofs", "usr/sbin/mkfs.erofs", "usr/local/bin/mkfs.erofs")
	look("bios-256k.bin", "seabios", "usr/share/seabios/bios-256k.bin", "usr/share/qemu/bios-256k.bin")
	var err error
	if p.kernel, err = findKernel(root); err != nil {
		missing = append(missing, "cloud kernel (package linux-image-cloud-amd64)")
	}
	if len(missing) > 0 {
		return p, fmt.Errorf("virtual machines need the Debian packages %s; below %s there is no %s", packages, root, strings.Join(missing, ", no "))
	}
	for _, folder := range []string{"usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib64", "lib64", "usr/lib", "lib"} {
		p.libraries = append(p.libraries, filepath.Join(root, folder))
	}
	p.firmware = []string{filepath.Join(root, "usr/share/qemu"), filepath.Join(root, "usr/share/seabios")}
	p.modules = filepath.Join(root, "usr/lib/x86_64-linux-gnu/qemu")
	return p, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
