package sandboxfunction

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxAhead bounds the sources that are held for sandboxes which boot, and so, at a
	// MiB each, the memory that they take. Others are read when they are planted.
	maxAhead = 16
	// aheadKept is how long one is held for a boot that takes its time.
	aheadKept = 30 * time.Second
)

// aheads are the sources that are read while the sandboxes boot which they are for.
type aheads struct {
	mu    sync.Mutex
	reads map[types.UID]*ahead
}

// ahead is one source. Its content, or why there is none, is there once read is
// closed.
type ahead struct {
	digest      string
	read, taken chan struct{}
	source      string
	err         error
}

func newAheads() *aheads { return &aheads{reads: map[types.UID]*ahead{}} }

// begin returns what the source of a function is to be read into, or nil if that is
// under way, or for too many.
func (a *aheads) begin(uid types.UID, digest string) *ahead {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.reads[uid]; known || len(a.reads) >= maxAhead {
		return nil
	}
	begun := &ahead{digest: digest, read: make(chan struct{}), taken: make(chan struct{})}
	a.reads[uid] = begun
	return begun
}

// take returns the source of a function and forgets it; nil if it is not held.
func (a *aheads) take(uid types.UID, digest string) *ahead {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := a.reads[uid]
	if held == nil || held.digest != digest {
		return nil
	}
	delete(a.reads, uid)
	close(held.taken)
	return held
}

// drop forgets a source that nobody took.
func (a *aheads) drop(uid types.UID, held *ahead) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reads[uid] == held {
		delete(a.reads, uid)
	}
}

// readAhead reads the source of a function for which a call waits while the sandbox
// boots, so that the call does not wait for the API server after that.
func (r *Reconciler) readAhead(sc *scope) {
	if !r.Table.Awaited(sc.runtime)[sc.obj.Spec.FunctionID] {
		return
	}
	key, uid, digest := sc.key, sc.obj.UID, sc.digest
	begun := r.aheads.begin(uid, digest)
	if begun == nil {
		return
	}
	operation := "ahead/" + uuid.NewString()
	started := r.plants.Start(operation, func(ctx context.Context) (struct{}, error) {
		defer r.aheads.drop(uid, begun)
		r.fill(ctx, begun, key, uid)
		select {
		case <-begun.taken:
		case <-r.Clock.After(aheadKept):
		case <-ctx.Done():
		}
		return struct{}{}, nil
	}, func() { r.plants.Take(operation) })
	if !started {
		r.aheads.drop(uid, begun)
	}
}

func (r *Reconciler) fill(ctx context.Context, begun *ahead, key types.NamespacedName, uid types.UID) {
	defer close(begun.read)
	ctx, cancel := context.WithTimeout(ctx, plantTimeout)
	defer cancel()
	begun.source, begun.err = r.readSource(ctx, key, uid, begun.digest)
}

// source returns the code that has a digest: what was read ahead, or else what is
// read now.
func (r *Reconciler) source(ctx context.Context, key types.NamespacedName, uid types.UID, digest string) (string, error) {
	held := r.aheads.take(uid, digest)
	if held == nil {
		return r.readSource(ctx, key, uid, digest)
	}
	select {
	case <-held.read:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if held.err != nil {
		return r.readSource(ctx, key, uid, digest)
	}
	return held.source, nil
}
