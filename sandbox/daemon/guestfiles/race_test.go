package guestfiles_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// TestTree_races swaps a folder of the root for a link out of it, as fast as
// possible, while every operation goes through that name.
func TestTree_races(t *testing.T) {
	w := newWorld(t, map[string]string{"swap/secret": "inside", "swap/deep/secret": "inside"})
	victim := filepath.Dir(w.outside)
	w.must(os.Mkdir(filepath.Join(victim, "deep"), 0o755))
	w.must(os.WriteFile(filepath.Join(victim, "deep/secret"), []byte("secret"), 0o644))
	w.must(os.Symlink(victim, filepath.Join(w.folder, "link")))
	ctx, cancel := context.WithTimeout(background, time.Second)
	defer cancel()
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for ctx.Err() == nil {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(w.folder, "swap"), unix.AT_FDCWD, filepath.Join(w.folder, "link"), unix.RENAME_EXCHANGE)
		}
	})
	// That some of these succeed is as well as that some fail: what counts is
	// what they leave alone.
	for ctx.Err() == nil {
		if upload, err := w.tree.Create(daemon.WriteSpec{Path: "/swap/secret", Mode: 0o666}); err == nil {
			_, _ = io.WriteString(upload, "attack")
			_ = upload.Commit()
		}
		_, _ = w.tree.ChangeMode(background, daemon.ModeSpec{Path: "/swap", Mode: 0o777, Recursive: true})
		_, _ = w.tree.Sed(background, daemon.SedSpec{Selection: daemon.Selection{Path: "/swap", Recursive: true}, Pattern: "secret", Replacement: "attack"})
		_ = w.tree.Move(background, daemon.MoveSpec{From: "/swap/deep", To: "/swap/deeper", Overwrite: true})
		_ = w.tree.Remove(background, daemon.RemoveSpec{Path: "/swap/deep", Recursive: true})
		_, _ = w.tree.MakeDir(daemon.MakeDirSpec{Path: "/swap/attack", Mode: 0o755, Parents: true})
		if file, _, err := w.tree.OpenFile("/swap/deep/secret"); err == nil {
			content, _ := io.ReadAll(file)
			_ = file.Close()
			if string(content) == "secret" {
				t.Fatal("a file outside of the root was read")
			}
		}
	}
	swapping.Wait()
	w.untouched()
	content, err := os.ReadFile(filepath.Join(victim, "deep/secret"))
	if err != nil || string(content) != "secret" {
		t.Errorf("outside of the root is %q, %v", content, err)
	}
	if _, err := os.Lstat(filepath.Join(victim, "attack")); err == nil {
		t.Error("a folder was made outside of the root")
	}
}
