package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func testCache(t *testing.T) cache {
	t.Helper()
	c, err := newCache(filepath.Join(t.TempDir(), "deep", "cache"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func names(t *testing.T, c cache) []string {
	t.Helper()
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

func TestCache_file_is_made_once(t *testing.T) {
	c := testCache(t)
	var made atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			file, err := c.file(t.Context(), "state", "key", func(path string) error {
				made.Add(1)
				return os.WriteFile(path, []byte("state"), 0o600)
			})
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			content, err := os.ReadFile(file.Name())
			if err != nil || string(content) != "state" {
				t.Errorf("it holds %q, %v", content, err)
			}
		})
	}
	group.Wait()
	if made.Load() != 1 {
		t.Errorf("it was made %d times", made.Load())
	}
	if got := names(t, c); len(got) != 1 {
		t.Errorf("the cache has %q", got)
	}
}

func TestCache_failure_leaves_nothing(t *testing.T) {
	c := testCache(t)
	broken := errors.New("no space")
	_, err := c.ensure(t.Context(), "state", "key", func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if got := names(t, c); len(got) != 0 {
		t.Errorf("the cache has %q", got)
	}
}

func TestCache_waiting_ends_with_its_caller(t *testing.T) {
	c := testCache(t)
	unlock, err := c.lock(t.Context(), "state-key")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.ensure(ctx, "state", "key", func(string) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

func TestCache_keeps_the_last_used(t *testing.T) {
	c := testCache(t)
	for i := range keptOf["usr"] + 2 {
		path, err := c.ensure(t.Context(), "usr", fmt.Sprint(i), func(path string) error { return os.WriteFile(path, nil, 0o600) })
		if err != nil {
			t.Fatal(err)
		}
		// The first stays in use.
		age := time.Now().Add(time.Duration(i-100) * time.Hour)
		if i == 0 {
			age = time.Now().Add(time.Hour)
		}
		if err := os.Chtimes(path, age, age); err != nil {
			t.Fatal(err)
		}
	}
	got := names(t, c)
	if len(got) != keptOf["usr"] || got[0] != "usr-0" || got[1] != "usr-3" {
		t.Errorf("the cache has %q", got)
	}
}

func TestCache_sweeps_what_was_not_finished(t *testing.T) {
	c := testCache(t)
	dead := filepath.Join(c.folder, "usr-a.4194399") // over the largest process number
	alive := filepath.Join(c.folder, fmt.Sprintf("usr-b.%d", os.Getpid()))
	write(t, dead, "")
	write(t, alive, "")
	write(t, filepath.Join(c.folder, "usr-c"), "")
	c.sweep()
	if got := names(t, c); len(got) != 2 || got[0] != filepath.Base(alive) {
		t.Errorf("the cache has %q", got)
	}
}
