package sandboxfunction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/guest"
)

func TestAheads(t *testing.T) {
	a := newAheads()
	held := a.begin("uid", "digest")
	if held == nil {
		t.Fatal("nothing is begun")
	}
	if a.begin("uid", "other") != nil {
		t.Error("another read of the same function is begun beside it")
	}
	if a.take("uid", "other") != nil || a.take("stranger", "digest") != nil {
		t.Error("a source is taken for another")
	}
	if a.take("uid", "digest") != held || a.take("uid", "digest") != nil {
		t.Error("a source cannot be taken once")
	}
	select {
	case <-held.taken:
	default:
		t.Error("who holds the source is not told that it was taken")
	}
	again := a.begin("uid", "digest")
	a.drop("uid", held)
	if a.take("uid", "digest") != again {
		t.Error("the end of a former read drops the present one")
	}
	if len(a.reads) != 0 {
		t.Errorf("%d reads are left", len(a.reads))
	}
}

func TestAheads_bound(t *testing.T) {
	a := newAheads()
	var held *ahead
	for n := range maxAhead {
		if held = a.begin(types.UID(fmt.Sprint(n)), "digest"); held == nil {
			t.Fatalf("read %d is refused", n)
		}
	}
	if a.begin("late", "digest") != nil {
		t.Error("one too many is begun")
	}
	a.drop(types.UID(fmt.Sprint(maxAhead-1)), held)
	if a.begin("late", "digest") == nil {
		t.Error("none is begun although one was dropped")
	}
}

// sourceReader is an API server that has one function.
type sourceReader struct {
	client.Reader
	fn    *sandboxv1alpha1.SandboxFunction
	reads atomic.Int32
	// err is of the first read only.
	err error
}

// Get implements client.Reader.
func (r *sourceReader) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if r.reads.Add(1) == 1 && r.err != nil {
		return r.err
	}
	r.fn.DeepCopyInto(obj.(*sandboxv1alpha1.SandboxFunction))
	return nil
}

// await has a call wait for a function in a runtime without a sandbox.
func await(t *testing.T, table *publish.Table, runtime publish.Runtime, functionID string) {
	t.Helper()
	table.Bind(publish.Binding{FunctionID: functionID, Runtime: runtime})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = table.AcquireFor(ctx, functionID, nil) // It ends with the test.
	}()
	t.Cleanup(func() { cancel(); <-ended })
	eventually(t, "the call to wait", func() bool { return table.Awaited(runtime)[functionID] })
}

func TestReconciler_readAhead(t *testing.T) {
	const source = "export const handler = () => 1;"
	fn := functionOf("uid", time.Unix(1e9, 0), "")
	fn.Spec.FunctionID, fn.Spec.Source.Inline = "shop::price", ptr.To(source)
	runtime := publish.Runtime{Namespace: "apps", Name: "shop"}
	for name, tc := range map[string]struct {
		awaited string
		digest  string
		err     error
		// ahead is what was read when the plant begins, reads what was read in all.
		ahead, reads int32
	}{
		"what a call waits for is read once":    {awaited: "shop::price", ahead: 1, reads: 1},
		"what nobody waits for is not":          {awaited: "shop::other", ahead: 0, reads: 1},
		"a failure is no reason not to plant":   {awaited: "shop::price", err: errors.New("away"), ahead: 1, reads: 2},
		"another source of the function is not": {awaited: "shop::price", digest: guest.SourceDigest([]byte("former")), ahead: 1, reads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			clk, reader := clocktesting.NewFakeClock(time.Unix(1e9, 0)), &sourceReader{fn: fn, err: tc.err}
			table := publish.NewTable(clk, publish.Hooks{})
			r := New(Options{Reader: reader, Table: table, Clock: clk})
			t.Cleanup(func() {
				if err := r.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			await(t, table, runtime, tc.awaited)
			digest := guest.SourceDigest([]byte(source))
			r.readAhead(&scope{obj: fn, key: client.ObjectKeyFromObject(fn), runtime: runtime, digest: cmp.Or(tc.digest, digest)})
			eventually(t, "what is read ahead", func() bool { return reader.reads.Load() >= tc.ahead })
			got, err := r.source(t.Context(), client.ObjectKeyFromObject(fn), fn.UID, digest)
			if got != source || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			if reads := reader.reads.Load(); reads != tc.reads {
				t.Errorf("%d reads, want %d", reads, tc.reads)
			}
		})
	}
}
