package guestfiles_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestfiles"
)

func TestTree_Move(t *testing.T) {
	cases := map[string]struct {
		spec daemon.MoveSpec
		want error
		left []string
	}{
		"a file":                          {daemon.MoveSpec{From: "/f", To: "/new"}, nil, []string{"d/", "d/g", "new", "out"}},
		"a folder":                        {daemon.MoveSpec{From: "/d", To: "/new"}, nil, []string{"f", "new/", "new/g", "out"}},
		"a link, not its target":          {daemon.MoveSpec{From: "/out", To: "/d/in"}, nil, []string{"d/", "d/g", "d/in", "f"}},
		"over a file":                     {daemon.MoveSpec{From: "/f", To: "/d/g", Overwrite: true}, nil, []string{"d/", "d/g", "out"}},
		"over a file without leave":       {daemon.MoveSpec{From: "/f", To: "/d/g"}, daemon.ErrExists, nil},
		"over a folder that holds things": {daemon.MoveSpec{From: "/f", To: "/d", Overwrite: true}, daemon.ErrWrongType, nil},
		"what is not there":               {daemon.MoveSpec{From: "/none", To: "/new"}, daemon.ErrFileMissing, nil},
		"into a missing folder":           {daemon.MoveSpec{From: "/f", To: "/none/new"}, daemon.ErrParentMissing, nil},
		"out of the root":                 {daemon.MoveSpec{From: "/f", To: "/out/stolen"}, daemon.ErrParentMissing, nil},
		"from beside the root":            {daemon.MoveSpec{From: "/../secret", To: "/new"}, daemon.ErrFileMissing, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": "f", "d/g": "g"})
			w.must(os.Symlink(filepath.Dir(w.outside), filepath.Join(w.folder, "out")))
			before := w.all()
			wants(t, w.tree.Move(background, tc.spec), tc.want)
			want := tc.left
			if want == nil {
				want = before
			}
			if diff := cmp.Diff(want, w.all()); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			w.untouched()
		})
	}
}

// TestTree_Move_across moves between two file systems, by a copy.
func TestTree_Move_across(t *testing.T) {
	other, err := os.MkdirTemp("/dev/shm", "move-") //nolint:usetesting // t.TempDir is on the same file system as the source
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	var here, there unix.Stat_t
	if err := unix.Stat(t.TempDir(), &here); err != nil {
		t.Fatal(err)
	}
	if err := unix.Stat(other, &there); err != nil {
		t.Fatal(err)
	}
	if here.Dev == there.Dev {
		t.Fatal("the temporary folder and /dev/shm are one file system, so this shows nothing")
	}
	w := newWorld(t, map[string]string{"d/f": "f", "d/s/g": "g"})
	w.link("d/link", "f")
	w.must(os.Chmod(filepath.Join(w.folder, "d/f"), 0o640))
	long := time.Unix(1_000_000_000, 0)
	w.must(os.Chtimes(filepath.Join(w.folder, "d/f"), long, long))
	root, err := guestfiles.Open("/")
	w.must(err)
	defer root.Close()
	w.must(os.Mkdir(filepath.Join(other, "taken"), 0o755))
	from := filepath.Join(w.folder, "d")
	wants(t, root.Move(background, daemon.MoveSpec{From: from, To: filepath.Join(other, "taken")}), daemon.ErrExists)
	if entries, _ := os.ReadDir(other); len(entries) != 1 {
		t.Errorf("a refused move left %v", entries)
	}
	w.must(root.Move(background, daemon.MoveSpec{From: from, To: filepath.Join(other, "new")}))
	if len(w.all()) != 0 {
		t.Errorf("the source still has %v", w.all())
	}
	moved := &world{t: t, folder: filepath.Join(other, "new")}
	if diff := cmp.Diff([]string{"f", "link", "s/", "s/g"}, moved.all()); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(other, "new/f"))
	w.must(err)
	if !info.ModTime().Equal(long) || info.Mode() != 0o640 || moved.content("s/g") != "g" {
		t.Errorf("the file has %v, %v, its neighbour holds %q", info.ModTime(), info.Mode(), moved.content("s/g"))
	}
}
