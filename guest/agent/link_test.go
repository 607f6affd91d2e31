package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// linkedGuest is a guest with a supervisor, an engine that it can reach, and the
// operator's worker there.
type linkedGuest struct {
	*guest
	operator *bus.Client
}

func newLinkedGuest(t *testing.T) *linkedGuest {
	t.Helper()
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	operator, err := bus.New(bus.Options{URL: e.URL("workers"), Name: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := operator.WaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := &linkedGuest{guest: newGuest(t), operator: operator}
	g.env = append(g.env, busVariable+"="+e.URL("workers")+"?token=unused")
	g.way = ways[1]
	t.Cleanup(g.endSupervisor)
	if reply := g.exec(wire.CommandInit, wire.InitRequest{Warm: true}); reply.Error != nil {
		t.Fatal(reply.Error)
	}
	g.awaitSupervisor()
	return g
}

// operatorEnd is the operator's end of a link.
type operatorEnd struct {
	t       *testing.T
	guest   *linkedGuest
	writer  *bus.ChannelWriter
	mutex   sync.Mutex
	answers map[uint32]wire.LinkPacket
	pongs   int
	ended   bool
	last    uint32
}

func (g *linkedGuest) channel() protocol.ChannelPair {
	g.t.Helper()
	pair, err := g.operator.CreateChannel(g.t.Context(), 0)
	if err != nil {
		g.t.Fatal(err)
	}
	return pair
}

func end(of protocol.ChannelRef) wire.LinkEnd {
	return wire.LinkEnd{ChannelID: of.ChannelID, AccessKey: of.AccessKey}
}

// programDigest is that of the program as it was built for this test.
func programDigest(t *testing.T) string {
	t.Helper()
	digest, err := digestOfFile(linkPath)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// link opens a link; the program has to be there.
func (g *linkedGuest) link() *operatorEnd {
	g.t.Helper()
	calls, replies := g.channel(), g.channel()
	ctx, cancel := context.WithCancel(context.Background())
	g.t.Cleanup(cancel)
	writer, err := g.operator.OpenWriter(ctx, calls.Writer)
	if err != nil {
		g.t.Fatal(err)
	}
	reader, err := g.operator.OpenReader(ctx, replies.Reader)
	if err != nil {
		g.t.Fatal(err)
	}
	reply := g.exec(wire.CommandLink, wire.LinkRequest{
		Calls: end(calls.Reader), Replies: end(replies.Writer), ProgramDigest: programDigest(g.t),
	})
	if reply.Error != nil {
		g.t.Fatal(reply.Error)
	}
	o := &operatorEnd{t: g.t, guest: g, writer: writer, answers: map[uint32]wire.LinkPacket{}}
	go o.read(bufio.NewReader(reader))
	return o
}

func (o *operatorEnd) read(reader *bufio.Reader) {
	for {
		packet, err := wire.ReadLinkPacket(reader)
		o.mutex.Lock()
		switch {
		case err != nil:
			o.ended = true
		case packet.Kind == wire.LinkPong:
			o.pongs++
		default:
			o.answers[packet.Number] = packet
		}
		o.mutex.Unlock()
		if err != nil {
			return
		}
	}
}

func (o *operatorEnd) hasEnded() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.ended
}

func (o *operatorEnd) send(kind wire.LinkKind, number uint32, body []byte) {
	o.t.Helper()
	line, err := wire.LinkPacket{Kind: kind, Number: number, Body: body}.Append(nil)
	if err != nil {
		o.t.Fatal(err)
	}
	if _, err := o.writer.Write(line); err != nil {
		o.t.Fatal(err)
	}
}

// begin sends a call and returns its number.
func (o *operatorEnd) begin(request wire.CallRequest) uint32 {
	o.t.Helper()
	body, err := wire.Marshal(request)
	if err != nil {
		o.t.Fatal(err)
	}
	o.last++
	o.send(wire.LinkCall, o.last, body)
	return o.last
}

func (o *operatorEnd) await(number uint32) (answer wire.LinkPacket) {
	o.t.Helper()
	eventually(o.t, fmt.Sprintf("call %d is answered", number), func() (there bool) {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		answer, there = o.answers[number]
		return there
	})
	return answer
}

// call calls until something was ready for the call.
func (o *operatorEnd) call(request wire.CallRequest) (reply wire.Reply) {
	o.t.Helper()
	eventually(o.t, "a call over the link finds a process", func() bool {
		answer := o.await(o.begin(o.guest.way.of(request)))
		if answer.Kind == wire.LinkNotRun {
			return false
		}
		var err error
		if reply, err = wire.DecodeReply(answer.Body); err != nil {
			o.t.Fatal(err)
		}
		return true
	})
	return reply
}

func (g *linkedGuest) plantProgram() {
	g.t.Helper()
	content, err := os.ReadFile(linkPath)
	if err == nil {
		err = writeAtomically(filepath.Join(g.home, linkName), content, 0o755)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *linkedGuest) programs() (found []string) {
	for _, each := range g.processes() {
		if fields := strings.Fields(each); len(fields) == 2 && filepath.Base(fields[1]) == linkName {
			found = append(found, fields[0])
		}
	}
	return found
}

func TestLink_calls(t *testing.T) {
	for _, way := range ways[1:] {
		t.Run(way.name, func(t *testing.T) {
			guest := newLinkedGuest(t)
			guest.way = way
			guest.plantProgram()
			link := guest.link()
			for language, source := range map[wire.Language]string{
				wire.Node:   "export const handler = (p) => { console.log('seen'); return p; };",
				wire.Python: "def handler(p):\n    print('seen')\n    return p\n",
			} {
				digest := guest.mustPlant(language, source)
				for i := range 5 {
					payload := fmt.Sprintf(`{"n":%d}`, i)
					reply := link.call(callRequest(language, digest, payload))
					if string(reply.Result) != payload || reply.Logs != "seen\n" || !slices.Contains(way.starts, reply.Start) {
						t.Errorf("%s: %+v", language, reply)
					}
				}
				guest.oneKindOfPool(language, digest)
			}
		})
	}
}

// oneKindOfPool: what was made ready for executions is what the link uses.
func (g *linkedGuest) oneKindOfPool(language wire.Language, digest string) {
	g.t.Helper()
	eventually(g.t, "a process is ready", func() bool { return g.keepers() > 0 })
	before := g.keepers()
	g.invoke(callRequest(language, digest, "0"))
	eventually(g.t, "no further processes are made", func() bool { return g.keepers() <= before+1 })
}

func TestLink_manyCallsAtOnce(t *testing.T) {
	guest := newLinkedGuest(t)
	guest.plantProgram()
	link := guest.link()
	digest := guest.mustPlant(wire.Python, "def handler(p): return p\n")
	link.call(callRequest(wire.Python, digest, "0"))
	numbers := map[uint32]string{}
	for i := range 40 {
		payload := fmt.Sprintf(`"%s %d"`, strings.Repeat("x", 10_000), i)
		numbers[link.begin(guest.way.of(callRequest(wire.Python, digest, payload)))] = payload
	}
	answered := 0
	for number, payload := range numbers {
		answer := link.await(number)
		if answer.Kind == wire.LinkNotRun {
			continue
		}
		answered++
		if reply, err := wire.DecodeReply(answer.Body); err != nil || string(reply.Result) != payload {
			t.Errorf("call %d: %v %v", number, err, reply.Error)
		}
	}
	if answered == 0 {
		t.Error("no call was served")
	}
}

func TestLink_cancel(t *testing.T) {
	guest := newLinkedGuest(t)
	guest.plantProgram()
	link := guest.link()
	mark := filepath.Join(t.TempDir(), "began")
	digest := guest.mustPlant(wire.Python, "import time\ndef handler(p):\n    if p:\n        open(p, 'w').close()\n        time.sleep(600)\n")
	link.call(callRequest(wire.Python, digest, "null"))
	request := guest.way.of(callRequest(wire.Python, digest, fmt.Sprintf("%q", mark)))
	number := link.begin(request)
	eventually(t, "the handler has begun", func() bool {
		_, err := os.Stat(mark)
		return err == nil
	})
	link.send(wire.LinkCancel, number, nil)
	reply, err := wire.DecodeReply(link.await(number).Body)
	if err != nil || reply.Error == nil || reply.Error.Kind != wire.Canceled {
		t.Errorf("%v %+v", err, reply)
	}
	link.send(wire.LinkCancel, number, nil) // one that has ended
	link.send(wire.LinkPing, 0, nil)
	eventually(t, "the link answers", func() bool {
		link.mutex.Lock()
		defer link.mutex.Unlock()
		return link.pongs > 0
	})
}

// What an execution has to say is not said over the link.
func TestLink_leavesToExecutions(t *testing.T) {
	guest := newLinkedGuest(t)
	guest.plantProgram()
	link := guest.link()
	unknown := guest.way.of(callRequest(wire.Node, digestOf("unknown"), "0"))
	endless := unknown
	endless.TimeoutMs = 0
	for name, request := range map[string]wire.CallRequest{"not planted": unknown, "no deadline": endless} {
		if answer := link.await(link.begin(request)); answer.Kind != wire.LinkNotRun {
			t.Errorf("%s: %c", name, answer.Kind)
		}
	}
	link.last++
	link.send(wire.LinkCall, link.last, []byte("{"))
	if answer := link.await(link.last); answer.Kind != wire.LinkNotRun {
		t.Errorf("no JSON: %c", answer.Kind)
	}
}

// A handler whose operator has gone is ended, and so is the program.
func TestLink_endsWithItsOperator(t *testing.T) {
	guest := newLinkedGuest(t)
	guest.plantProgram()
	link := guest.link()
	mark := filepath.Join(t.TempDir(), "pid")
	digest := guest.mustPlant(wire.Python, "import os, time\ndef handler(p):\n    if p:\n        open(p + '~', 'w').write(str(os.getpid()))\n        os.rename(p + '~', p)\n        time.sleep(600)\n")
	link.call(callRequest(wire.Python, digest, "null"))
	link.begin(guest.way.of(callRequest(wire.Python, digest, fmt.Sprintf("%q", mark))))
	var pid string
	eventually(t, "the handler has begun", func() bool {
		content, err := os.ReadFile(mark)
		pid = string(content)
		return err == nil
	})
	if err := link.writer.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the handler has ended", func() bool {
		_, err := os.Stat("/proc/" + pid)
		return err != nil
	})
	eventually(t, "the program has ended", func() bool { return len(guest.programs()) == 0 })
	guest.invoke(callRequest(wire.Python, digest, "null")) // the supervisor goes on
}

func TestLink_newOneReplaces(t *testing.T) {
	guest := newLinkedGuest(t)
	guest.plantProgram()
	digest := guest.mustPlant(wire.Python, "def handler(p): return p\n")
	first := guest.link()
	first.call(callRequest(wire.Python, digest, "1"))
	second := guest.link()
	eventually(t, "the first link ends", first.hasEnded)
	second.call(callRequest(wire.Python, digest, "2"))
	eventually(t, "one program is left", func() bool { return len(guest.programs()) == 1 })
}

// Whoever kills the program ends the link and nothing else.
func TestLink_programIsKilled(t *testing.T) {
	guest := newLinkedGuest(t)
	guest.plantProgram()
	digest := guest.mustPlant(wire.Python, "def handler(p): return p\n")
	link := guest.link()
	link.call(callRequest(wire.Python, digest, "1"))
	pid := 0
	if _, err := fmt.Sscan(guest.programs()[0], &pid); err != nil {
		t.Fatal(err)
	}
	kill(pid)
	eventually(t, "the link ends", link.hasEnded)
	guest.invoke(callRequest(wire.Python, digest, "2"))
	guest.link().call(callRequest(wire.Python, digest, "3"))
}

func TestLink_cannotBeOpened(t *testing.T) {
	guest := newLinkedGuest(t)
	request := wire.LinkRequest{Calls: end(guest.channel().Reader), Replies: end(guest.channel().Writer), ProgramDigest: programDigest(t)}
	expect := func(what string, kind wire.FailureKind) {
		t.Helper()
		reply := guest.exec(wire.CommandLink, request)
		if reply.Error == nil || reply.Error.Kind != kind || strings.Contains(reply.Error.Message, request.Calls.AccessKey) {
			t.Errorf("%s: %+v", what, reply.Error)
		}
	}
	expect("without the program", wire.NoProgram)
	if err := os.WriteFile(filepath.Join(guest.home, linkName), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	expect("with another program", wire.NoProgram)
	guest.plantProgram()
	request.Calls.AccessKey = strings.Repeat("0", 64)
	expect("with a wrong key", wire.Internal)
	eventually(t, "the program has ended", func() bool { return len(guest.programs()) == 0 })
	guest.env = slices.DeleteFunc(guest.env, func(entry string) bool { return strings.HasPrefix(entry, busVariable) })
	expect("without the bus", wire.NoBus)
}

func TestChannelURL(t *testing.T) {
	end := wire.LinkEnd{ChannelID: "c", AccessKey: "k"}
	for bus, want := range map[string]string{
		"ws://10.0.2.2:9":          "ws://10.0.2.2:9/ws/channels/c?key=k&dir=read",
		"wss://bus/":               "wss://bus/ws/channels/c?key=k&dir=read",
		"ws://bus:1/below/?token=": "ws://bus:1/below/ws/channels/c?key=k&dir=read&token=",
	} {
		if got := channelURL(bus, end, "read"); got != want {
			t.Errorf("%s: want %s, got %s", bus, want, got)
		}
	}
}
