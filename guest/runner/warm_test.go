package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// In a real sandbox, its filters and limits in force, calls get processes that
// are ready; the supervisor needs no starting, as a warm call that finds none
// brings one about.
func TestSandbox_warmCalls(t *testing.T) {
	tests := map[string]struct {
		language  wire.Language
		source    string
		isolation wire.Isolation
		want      string
	}{
		"node":          {wire.Node, "export const handler = (p) => p + 1;", "", wire.StartReady},
		"python":        {wire.Python, "def handler(p): return p + 1\n", wire.PerCall, wire.StartForked},
		"node shared":   {wire.Node, "export const handler = (p) => p + 1; // shared", wire.Shared, wire.StartShared},
		"python shared": {wire.Python, "def handler(p): return p + 1 # shared\n", wire.Shared, wire.StartShared},
	}
	w := newRealWorld(t)
	w.Warm = true
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			digest := guest.SourceDigest([]byte(tc.source))
			err := w.Plant(t.Context(), w.id, wire.PlantRequest{
				Language: tc.language, Source: tc.source, SourceDigest: digest, Warm: true, Isolation: tc.isolation})
			if err != nil {
				t.Fatal(err)
			}
			request := wire.CallRequest{
				Language: tc.language, SourceDigest: digest, Payload: []byte("41"), TimeoutMs: 20_000, Warm: true, Isolation: tc.isolation}
			var starts []string
			for limit := time.Now().Add(time.Minute); !slices.Contains(starts, tc.want) && time.Now().Before(limit); {
				reply, err := w.Call(t.Context(), w.id, request)
				if err != nil || string(reply.Result) != "42" {
					t.Fatalf("got %s %+v %v", reply.Result, reply.Error, err)
				}
				starts = append(starts, reply.Start)
			}
			if !slices.Contains(starts, tc.want) {
				t.Errorf("no call was %s: %v", tc.want, starts)
			}
		})
	}
	// Without its folder the supervisor ends, and with it what it kept ready.
	run := w.setup("rm -r /sandbox-operator/*/supervisor; i=0; while [ $i -lt 600 ] && grep -qs 'agent-' /proc/[0-9]*/comm; do i=$((i+1)); sleep 0.1; done; cat /proc/[0-9]*/comm")
	for _, name := range []string{"agent-", "node", "python"} {
		if strings.Contains(run.Stdout, name) {
			t.Errorf("still there: %s", run.Stdout)
		}
	}
}
