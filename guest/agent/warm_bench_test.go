package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

var emptyHandlers = map[wire.Language]string{
	wire.Node: `export const handler = () => null;`, wire.Python: "def handler(p): return None\n",
}

// BenchmarkCall compares calls of an empty handler, cold and warm in turns: the
// medians, and what the warm one takes of the cold one. Between two calls passes
// the time in which the next process gets ready.
func BenchmarkCall(b *testing.B) {
	for language, source := range emptyHandlers {
		b.Run(string(language), func(b *testing.B) {
			g := newBenchGuest(b)
			digest := digestOf(source)
			g.timed(b, wire.CommandPlant, wire.PlantRequest{Language: language, Source: source, SourceDigest: digest, Warm: true})
			request := callRequest(language, digest, "0")
			request.Warm = true
			var cold, warm []time.Duration
			for b.Loop() {
				took, reply := g.timed(b, wire.CommandCall, request)
				if reply.Start != wire.StartCold {
					warm = append(warm, took)
				}
				coldRequest := request
				coldRequest.Warm = false
				took, _ = g.timed(b, wire.CommandCall, coldRequest)
				cold = append(cold, took)
			}
			if len(warm) == 0 {
				b.Fatal("too few rounds for a process to get ready: use -benchtime=50x")
			}
			b.ReportMetric(float64(median(cold).Microseconds())/1000, "cold-ms")
			b.ReportMetric(float64(median(warm).Microseconds())/1000, "warm-ms")
			b.ReportMetric(float64(median(warm))/float64(median(cold)), "warm/cold")
			b.ReportMetric(float64(len(warm))/float64(len(cold)), "warm-share")
			load, _ := os.ReadFile("/proc/loadavg")
			b.Logf("load %s", strings.Fields(string(load))[0])
		})
	}
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

type benchGuest struct{ home string }

func newBenchGuest(b *testing.B) benchGuest {
	b.Helper()
	g := benchGuest{home: filepath.Join(b.TempDir(), "private")}
	content, err := os.ReadFile(agentPath)
	if err == nil {
		err = writeAtomically(g.home+"/agent", content, 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	g.timed(b, wire.CommandInit, wire.InitRequest{Warm: true})
	b.Cleanup(func() {
		dismiss(folder(g.home)) // a stranger to this process, but it listens
	})
	return g
}

func (g benchGuest) timed(b *testing.B, subcommand string, request any) (time.Duration, wire.Reply) {
	b.Helper()
	body, err := wire.Marshal(request)
	if err != nil {
		b.Fatal(err)
	}
	command := exec.Command(g.home+"/agent", subcommand)
	command.Env, command.Stdin = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + g.home}, bytes.NewReader(body)
	begun := time.Now()
	output, err := command.Output()
	took := time.Since(begun)
	if err != nil {
		b.Fatal(err)
	}
	reply, err := wire.DecodeReply(output)
	if err != nil || reply.Error != nil {
		b.Fatalf("%v %v", err, reply.Error)
	}
	return took, reply
}
