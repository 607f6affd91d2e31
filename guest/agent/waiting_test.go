package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// gated notes each of its loadings, and goes on once it is told to: to be ready, or
// to die.
var gated = map[wire.Language]string{
	wire.Node: `import fs from 'node:fs';
fs.appendFileSync('LOADS', 'x');
while (!fs.existsSync('READY')) {
  if (fs.existsSync('DIE')) process.exit(3);
  await new Promise((resolve) => setTimeout(resolve, 5));
}
export const handler = (p) => p;
`,
	wire.Python: `import os, time
with open('LOADS', 'a') as file: file.write('x')
while not os.path.exists('READY'):
    if os.path.exists('DIE'): os._exit(3)
    time.sleep(0.005)
def handler(p): return p
`,
}

// lineGuest speaks to the supervisor as an agent that is started for a call does.
type lineGuest struct {
	*guest
	folder string
	spec   warmSpec
}

func newLineGuest(t *testing.T, language wire.Language) *lineGuest {
	t.Helper()
	g := &lineGuest{guest: newWarmGuest(t), folder: t.TempDir()}
	g.flag("READY") // planting loads the source too
	source := strings.NewReplacer("LOADS", g.path("LOADS"), "READY", g.path("READY"), "DIE", g.path("DIE")).Replace(gated[language])
	digest := g.mustPlant(language, source)
	for _, name := range []string{"READY", "LOADS"} {
		if err := os.Remove(g.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	interpreter, failure := findInterpreter(language)
	if failure != nil {
		t.Fatal(failure)
	}
	g.spec, _ = newWarmSpec(interpreter, callRequest(language, digest, "0"), g.env)
	return g
}

func (g *lineGuest) path(name string) string { return filepath.Join(g.folder, name) }

func (g *lineGuest) flag(name string) {
	g.t.Helper()
	if err := os.WriteFile(g.path(name), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *lineGuest) loads() int {
	content, _ := os.ReadFile(g.path("LOADS"))
	return len(content)
}

// beginMaking has a process made, and returns when it is at its loading.
func (g *lineGuest) beginMaking() {
	g.t.Helper()
	spec, err := wire.Marshal(g.spec)
	if err != nil {
		g.t.Fatal(err)
	}
	connection := g.ask(askWarm, spec)
	g.expect(connection, answerDone)
	eventually(g.t, "a process is being made", func() bool { return g.loads() > 0 })
}

func (g *lineGuest) ask(kind byte, body []byte) *os.File {
	g.t.Helper()
	connection, _ := dial(folder(g.home)) // a stranger to this process, but it listens
	if connection == nil {
		g.t.Fatal("nobody listens")
	}
	g.t.Cleanup(func() { connection.Close() })
	if err := writePacket(connection, kind, body); err != nil {
		g.t.Fatal(err)
	}
	return connection
}

// waitInLine has a call wait. On a busy machine what is being made may be overdue
// by then; it waits for the next.
func (g *lineGuest) waitInLine() (call *os.File) {
	g.t.Helper()
	eventually(g.t, "a call waits", func() bool {
		call = g.ask(askCall, []byte(g.spec.key()))
		_ = call.SetReadDeadline(time.Now().Add(testTimeout))
		answer, err := readPacket(call, maxAskBytes)
		return err == nil && answer.kind == answerWait
	})
	return call
}

func (g *lineGuest) expect(connection *os.File, want byte) packet {
	g.t.Helper()
	if err := connection.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		g.t.Fatal(err)
	}
	got, err := readPacket(connection, maxAskBytes)
	if err != nil || got.kind != want {
		g.t.Fatalf("want %c, got %c %v", want, got.kind, err)
	}
	return got
}

func (g *lineGuest) expectReply(connection *os.File, payload string) {
	g.t.Helper()
	g.expect(connection, answerAccepted)
	head, _ := wire.Marshal(callHead{TimeoutMs: testTimeout.Milliseconds()})
	line, _ := wire.Marshal(hostLine{Context: newHandlerContext(wire.CallContext{}, testTimeout)})
	if err := writePacket(connection, sendCall, head, []byte("\n"), line, []byte("\n"), json.RawMessage(payload)); err != nil {
		g.t.Fatal(err)
	}
	g.expect(connection, answerTaken)
	reply, err := wire.DecodeReply(g.expect(connection, answerReply).body)
	if err != nil || string(reply.Result) != payload {
		g.t.Errorf("%v %+v", err, reply)
	}
}

// A call that finds a process being made waits for that one: no other is started.
func TestWaiting_served(t *testing.T) {
	for language := range gated {
		t.Run(string(language), func(t *testing.T) {
			g := newLineGuest(t, language)
			g.beginMaking()
			call := g.waitInLine()
			if loads := g.loads(); loads > 1+makingAhead() {
				t.Errorf("%d processes were begun", loads)
			}
			g.flag("READY")
			g.expectReply(call, `"waited"`)
		})
	}
}

// Should the process die before it has the call, the call starts cold, as all do
// that come until another is tried.
func TestWaiting_processDies(t *testing.T) {
	for language := range gated {
		t.Run(string(language), func(t *testing.T) {
			g := newLineGuest(t, language)
			g.beginMaking()
			call := g.waitInLine()
			g.flag("DIE")
			g.expect(call, answerCold)
		})
	}
}

// One that hangs is waited for as long as it might yet be of use, and no longer.
func TestWaiting_processHangs(t *testing.T) {
	g := newLineGuest(t, wire.Node)
	g.beginMaking()
	call := g.waitInLine()
	g.expect(call, answerCold)
}

// A caller that goes leaves its place, and the process, to the next.
func TestWaiting_callerGoes(t *testing.T) {
	g := newLineGuest(t, wire.Node)
	g.beginMaking()
	first, second := g.waitInLine(), g.waitInLine()
	first.Close()
	g.flag("READY")
	g.expectReply(second, `"second"`)
}

func TestPool_places(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	making := func(age time.Duration) *attendant { return &attendant{state: stateMaking, begun: now.Add(-age)} }
	const refill = 100 * time.Millisecond
	overdue := 2*refill + waitGrace
	tests := map[string]struct {
		mode    mode
		pool    []*attendant
		blocked bool
		want    int
	}{
		"one can be made":                              {modeOnce, nil, false, maxWaiting},
		"one is being made":                            {modeOnce, []*attendant{making(refill)}, false, maxWaiting},
		"what is being made hangs":                     {modeOnce, []*attendant{making(overdue)}, false, 0},
		"none is to be made":                           {modeOnce, nil, true, 0},
		"none is to be made beside those that are":     {modeOnce, []*attendant{making(0), making(0)}, true, 2},
		"one that forks is for all":                    {modeFork, []*attendant{making(0)}, true, maxWaiting},
		"what calls share has a way of waiting itself": {modeShared, []*attendant{making(0)}, false, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := &pool{mode: tc.mode, refill: refill, attendants: tc.pool}
			if tc.blocked {
				p.blockedUntil = now.Add(time.Second)
			}
			if got := p.places(now); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

// What calls wait for is made in addition to what is to be ready for others.
func TestPool_claimed(t *testing.T) {
	making := &attendant{state: stateMaking}
	for name, tc := range map[string]struct {
		mode                    mode
		making, waiting         int
		wantClaimed, wantUnmade int
	}{
		"nobody waits":               {modeOnce, 2, 0, 0, 0},
		"one waits":                  {modeOnce, 2, 1, 1, 0},
		"more wait than are made":    {modeOnce, 2, 5, 2, 3},
		"all wait for one to fork":   {modeFork, 1, 5, 0, 0},
		"one is made that will fork": {modeFork, 0, 5, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pool{mode: tc.mode, waiting: make([]waiter, tc.waiting)}
			for range tc.making {
				p.attendants = append(p.attendants, making)
			}
			if claimed, unmade := p.claimed(), p.unserved(); claimed != tc.wantClaimed || unmade != tc.wantUnmade {
				t.Errorf("want %d claimed and %d to make, got %d and %d", tc.wantClaimed, tc.wantUnmade, claimed, unmade)
			}
		})
	}
}
