package guestfiles_test

import (
	"io"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

func TestTree_List(t *testing.T) {
	w := newWorld(t, map[string]string{"d/.hidden": "1", "d/file": "22", "d/sub/x": ""})
	w.link("d/link", "/nowhere")
	w.link("to-d", "d")
	got, err := w.tree.List("/d")
	w.must(err)
	sort.Slice(got, func(i, j int) bool { return got[i].Name < got[j].Name })
	want := []daemon.FileInfo{
		{Name: ".hidden", Size: 1, Mode: 0o644}, {Name: "file", Size: 2, Mode: 0o644},
		{Name: "link", IsSymlink: true, Size: 8, Mode: 0o777}, {Name: "sub", IsDir: true, Mode: 0o755},
	}
	ignored := cmp.Options{
		cmpopts.IgnoreFields(daemon.FileInfo{}, "ModTime"),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Size" }, cmp.Comparer(func(a, b int64) bool { return a == b || a > 100 || b > 100 })),
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	for path, want := range map[string]error{"/to-d": daemon.ErrWrongType, "/d/file": daemon.ErrWrongType, "/none": daemon.ErrFileMissing} {
		_, err := w.tree.List(path)
		wants(t, err, want)
	}
}

func TestTree_MakeDir(t *testing.T) {
	cases := map[string]struct {
		spec    daemon.MakeDirSpec
		created bool
		want    error
	}{
		"a folder":                          {daemon.MakeDirSpec{Path: "/new", Mode: 0o777}, true, nil},
		"one with a sticky bit":             {daemon.MakeDirSpec{Path: "/new/", Mode: 0o1777}, true, nil},
		"with what is above it":             {daemon.MakeDirSpec{Path: "/a/b/c", Mode: 0o700, Parents: true}, true, nil},
		"above it a way back":               {daemon.MakeDirSpec{Path: "/a/../b/c", Mode: 0o700, Parents: true}, true, nil},
		"one that is there":                 {daemon.MakeDirSpec{Path: "/d", Mode: 0o700}, false, daemon.ErrExists},
		"one that is there, with parents":   {daemon.MakeDirSpec{Path: "/d", Mode: 0o700, Parents: true}, false, nil},
		"a link to one, with parents":       {daemon.MakeDirSpec{Path: "/to-d", Mode: 0o700, Parents: true}, false, nil},
		"over a file":                       {daemon.MakeDirSpec{Path: "/d/f", Mode: 0o700, Parents: true}, false, daemon.ErrExists},
		"below a file":                      {daemon.MakeDirSpec{Path: "/d/f/x", Mode: 0o700, Parents: true}, false, daemon.ErrWrongType},
		"in a missing folder":               {daemon.MakeDirSpec{Path: "/a/b", Mode: 0o700}, false, daemon.ErrParentMissing},
		"the root, with parents":            {daemon.MakeDirSpec{Path: "/", Mode: 0o700, Parents: true}, false, nil},
		"the root":                          {daemon.MakeDirSpec{Path: "/", Mode: 0o700}, false, errArgument},
		"below a link out of the root":      {daemon.MakeDirSpec{Path: "/out/new", Mode: 0o700}, false, daemon.ErrParentMissing},
		"what a link out of the root names": {daemon.MakeDirSpec{Path: "/out/a", Mode: 0o700, Parents: true}, false, daemon.ErrExists},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"d/f": ""})
			w.link("to-d", "/d")
			w.link("out", "../../../../../..//gone")
			created, err := w.tree.MakeDir(tc.spec)
			wants(t, err, tc.want)
			if created != tc.created {
				t.Errorf("created is %t", created)
			}
			if created && uint32(w.mode(tc.spec.Path).Perm()) != tc.spec.Mode&0o777 {
				t.Errorf("mode is %v", w.mode(tc.spec.Path))
			}
			w.untouched()
		})
	}
}

func TestTree_Remove(t *testing.T) {
	cases := map[string]struct {
		spec daemon.RemoveSpec
		want error
		gone []string
	}{
		"a file":                           {daemon.RemoveSpec{Path: "/d/f"}, nil, []string{"d/f"}},
		"an empty folder":                  {daemon.RemoveSpec{Path: "/empty"}, nil, []string{"empty/"}},
		"a folder that holds something":    {daemon.RemoveSpec{Path: "/d"}, daemon.ErrNotEmpty, nil},
		"the same with all it holds":       {daemon.RemoveSpec{Path: "/d", Recursive: true}, nil, []string{"d/", "d/f", "d/out"}},
		"a link to a folder":               {daemon.RemoveSpec{Path: "/to-d", Recursive: true}, nil, []string{"to-d"}},
		"a link out of the root":           {daemon.RemoveSpec{Path: "/d/out"}, nil, []string{"d/out"}},
		"a file through a link to it":      {daemon.RemoveSpec{Path: "/to-d/f"}, nil, []string{"d/f"}},
		"a file through a way out and in":  {daemon.RemoveSpec{Path: "/../../d/f"}, nil, []string{"d/f"}},
		"what is not there":                {daemon.RemoveSpec{Path: "/none", Recursive: true}, daemon.ErrFileMissing, nil},
		"what is in no folder":             {daemon.RemoveSpec{Path: "/none/x"}, daemon.ErrFileMissing, nil},
		"what is below a file":             {daemon.RemoveSpec{Path: "/d/f/x"}, daemon.ErrWrongType, nil},
		"the folder itself by a dot":       {daemon.RemoveSpec{Path: "/d/.", Recursive: true}, errArgument, nil},
		"what lies beside the root":        {daemon.RemoveSpec{Path: "/../secret"}, daemon.ErrFileMissing, nil},
		"what a link beside the root says": {daemon.RemoveSpec{Path: "/d/out/secret"}, daemon.ErrFileMissing, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"d/f": "", "empty/": ""})
			w.link("to-d", "d")
			w.must(os.Symlink(filepath.Dir(w.outside), filepath.Join(w.folder, "d/out")))
			want := map[string]bool{}
			for _, path := range w.all() {
				want[path] = true
			}
			for _, path := range tc.gone {
				delete(want, path)
			}
			wants(t, w.tree.Remove(background, tc.spec), tc.want)
			got := map[string]bool{}
			for _, path := range w.all() {
				got[path] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			w.untouched()
		})
	}
}

func TestTree_ChangeMode(t *testing.T) {
	owner := uint32(os.Getuid())
	cases := map[string]struct {
		spec    daemon.ModeSpec
		updated int
		want    error
		changed []string
	}{
		"a file":                             {daemon.ModeSpec{Path: "/d/f", Mode: 0o4711}, 1, nil, []string{"d/f"}},
		"an owner along with it":             {daemon.ModeSpec{Path: "/d/f", Mode: 0o4711, UID: &owner, GID: &owner}, 1, nil, []string{"d/f"}},
		"a folder alone":                     {daemon.ModeSpec{Path: "/d", Mode: 0o4711}, 1, nil, []string{"d/"}},
		"a folder and all below, not links":  {daemon.ModeSpec{Path: "/d", Mode: 0o4711, Recursive: true}, 4, nil, []string{"d/", "d/f", "d/s/", "d/s/g"}},
		"what a link names":                  {daemon.ModeSpec{Path: "/to-d", Mode: 0o4711}, 1, nil, []string{"d/"}},
		"what a link to it names, and below": {daemon.ModeSpec{Path: "/to-d/", Mode: 0o4711, Recursive: true}, 4, nil, []string{"d/", "d/f", "d/s/", "d/s/g"}},
		"nothing":                            {daemon.ModeSpec{Path: "/none", Mode: 0o4711}, 0, daemon.ErrFileMissing, nil},
		"a link out of the root":             {daemon.ModeSpec{Path: "/d/out", Mode: 0o4711}, 0, daemon.ErrFileMissing, nil},
		"a link to itself":                   {daemon.ModeSpec{Path: "/loop", Mode: 0o4711}, 0, daemon.ErrWrongType, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"d/f": "", "d/s/g": ""})
			w.link("to-d", "/d")
			w.link("loop", "loop")
			w.must(os.Symlink(w.outside, filepath.Join(w.folder, "d/out")))
			updated, err := w.tree.ChangeMode(background, tc.spec)
			wants(t, err, tc.want)
			if updated != tc.updated {
				t.Errorf("%d paths updated, want %d", updated, tc.updated)
			}
			var changed []string
			for _, path := range w.all() {
				var status unix.Stat_t
				w.must(unix.Lstat(filepath.Join(w.folder, path), &status))
				if status.Mode&0o7777 == tc.spec.Mode {
					changed = append(changed, path)
				}
			}
			if diff := cmp.Diff(tc.changed, changed); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			w.untouched()
		})
	}
}

func TestTree_Create_and_OpenFile_stay_in_the_root(t *testing.T) {
	w := newWorld(t, map[string]string{"d/f": "inside"})
	w.must(os.Symlink(w.outside, filepath.Join(w.folder, "out")))
	w.must(os.Symlink(filepath.Dir(w.outside), filepath.Join(w.folder, "away")))
	w.link("in", "/d/f")
	for _, path := range []string{"/out", "/away/secret", "/../secret"} {
		_, _, err := w.tree.OpenFile(path)
		wants(t, err, daemon.ErrFileMissing)
	}
	for path, want := range map[string]error{"/out": nil, "/in": nil, "/away/secret": daemon.ErrParentMissing, "/d": daemon.ErrWrongType, "/d/f/x": daemon.ErrWrongType} {
		upload, err := w.tree.Create(daemon.WriteSpec{Path: path, Mode: 0o600})
		wants(t, err, want)
		if err == nil {
			_, err = io.WriteString(upload, "new")
			w.must(err)
			w.must(upload.Commit())
			if w.content(path) != "new" || w.mode(path) != 0o600 {
				t.Errorf("%s holds %q with mode %v", path, w.content(path), w.mode(path))
			}
		}
	}
	if w.content("d/f") != "inside" {
		t.Error("writing followed a link")
	}
	w.untouched()
}
