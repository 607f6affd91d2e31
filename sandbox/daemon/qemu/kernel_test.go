package qemu

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"
)

// bzImage is a file with a kernel's header around a payload.
func bzImage(t *testing.T, kernel []byte, change func(image []byte) []byte) []byte {
	t.Helper()
	var payload bytes.Buffer
	w := lz4.NewWriter(&payload)
	if err := w.Apply(lz4.LegacyOption(true)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(kernel); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	payload.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(kernel))))
	const sectors, gap = 2, 100
	header := make([]byte, (sectors+1)*sectorBytes+gap)
	header[setupSectors] = sectors
	copy(header[headerMagic:], "HdrS")
	binary.LittleEndian.PutUint32(header[payloadOffset:], gap)
	binary.LittleEndian.PutUint32(header[payloadLength:], uint32(payload.Len()))
	image := slices.Concat(header, payload.Bytes(), []byte("signature"))
	if change != nil {
		image = change(image)
	}
	return image
}

func TestUnpackKernel(t *testing.T) {
	// More than one of LZ4's blocks of 8 MiB.
	kernel := append([]byte("\x7fELF"), bytes.Repeat([]byte("kernel "), 2<<20)...)
	for name, tc := range map[string]struct {
		image   []byte
		wantErr string
	}{
		"a kernel":            {image: bzImage(t, kernel, nil)},
		"an empty file":       {image: nil, wantErr: "no bzImage"},
		"another file":        {image: bytes.Repeat([]byte("x"), 4096), wantErr: "no bzImage"},
		"another compression": {image: bzImage(t, kernel, func(i []byte) []byte { copy(i[3*sectorBytes+100:], "\xfd7zX"); return i }), wantErr: "not as LZ4 does"},
		"a payload past the end": {image: bzImage(t, kernel, func(i []byte) []byte {
			binary.LittleEndian.PutUint32(i[payloadLength:], 1<<30)
			return i
		}), wantErr: "not within its file"},
		"a payload that is cut": {image: bzImage(t, kernel, func(i []byte) []byte {
			binary.LittleEndian.PutUint32(i[payloadLength:], 5000)
			return i
		}), wantErr: "kernel"},
		"a payload that is no program": {image: bzImage(t, []byte("text"), nil), wantErr: "no ELF file"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := unpackKernel(tc.image)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || !bytes.Equal(got, kernel) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

func TestFindKernel(t *testing.T) {
	root := t.TempDir()
	if _, err := findKernel(root); err == nil {
		t.Error("an empty folder has a kernel")
	}
	for _, version := range []string{"6.1.0-9-cloud-amd64", "6.1.0-57-cloud-amd64", "6.1.0-58-cloud-amd64"} {
		write(t, filepath.Join(root, "boot/vmlinuz-"+version), "")
	}
	write(t, filepath.Join(root, "lib/modules/6.1.0-9-cloud-amd64/modules.builtin"), "")
	write(t, filepath.Join(root, "usr/lib/modules/6.1.0-57-cloud-amd64/modules.builtin"), "")
	got, err := findKernel(root)
	if err != nil {
		t.Fatal(err)
	}
	// The newest one has no modules.
	if filepath.Base(got.image) != "vmlinuz-6.1.0-57-cloud-amd64" || filepath.Base(got.modules) != "6.1.0-57-cloud-amd64" {
		t.Errorf("found %+v", got)
	}
}

func TestCompareVersions(t *testing.T) {
	want := []string{"5.10.0-1", "6.1.0-9", "6.1.0-010", "6.1.0-57", "6.1.0-57a", "6.12.0-1", "7"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareVersions)
	if !slices.Equal(got, want) {
		t.Errorf("sorted %q", got)
	}
}

// write makes a file with its folders.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
