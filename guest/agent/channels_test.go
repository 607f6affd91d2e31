package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// newEngine is the embedded engine with a connected client.
func newEngine(t *testing.T) (url string, client *bus.Client) {
	t.Helper()
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err == nil {
		err = e.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	return e.URL("workers"), newClient(t, e.URL("workers"))
}

func newClient(t *testing.T, url string) *bus.Client {
	t.Helper()
	client, err := bus.New(bus.Options{URL: url, Name: "caller"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := client.Run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the client's connection: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	waiting, stop := context.WithTimeout(t.Context(), testTimeout)
	defer stop()
	if err := client.WaitConnected(waiting); err != nil {
		t.Fatal(err)
	}
	return client
}

func newChannel(t *testing.T, client *bus.Client) protocol.ChannelPair {
	t.Helper()
	pair, err := client.CreateChannel(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// A handler reads one channel of its payload and writes another.
func TestChannels_inPayloads(t *testing.T) {
	sources := map[string]struct {
		language wire.Language
		source   string
	}{
		"node": {wire.Node, `export async function handler(p) {
  const data = await p.in.reader.readAll();
  p.out[0].stream.write(data.toString().toUpperCase());
  p.out[0].stream.end();
  return [data.length, p.in.reader.direction, p];
}`},
		"node, a writer that is left open": {wire.Node, `export async function handler(p) {
  const data = await p.in.reader.readAll();
  p.out[0].stream.write(data.toString().toUpperCase());
  return [data.length, p.in.reader.direction, p];
}`},
		"python": {wire.Python, `async def handler(p):
  data = await p['in']['reader'].read_all()
  await p['out'][0].write(data.upper())
  await p['out'][0].close_async()
  return [len(data), p['in']['reader']['direction'], p]
`},
		"python, chunk by chunk": {wire.Python, `async def handler(p):
  size = 0
  async for chunk in p['in']['reader']:
    size += len(chunk)
    await p['out'][0].write(chunk.upper())
  return [size, p['in']['reader']['direction'], p]
`},
		"python, a writer that is left open": {wire.Python, `async def handler(p):
  data = await p['in']['reader'].read_all()
  p['out'][0].stream.write(data.upper())
  return [len(data), p['in']['reader']['direction'], p]
`},
		"python, without async": {wire.Python, `import asyncio
async def copy(p):
  data = await p['in']['reader'].read_all()
  await p['out'][0].write(data.upper())
  await p['out'][0].close_async()
  return data
def handler(p): return [len(asyncio.run(copy(p))), p['in']['reader']['direction'], p]
`},
	}
	guest := newBusGuest(t)
	url, client := newEngine(t)
	sent := strings.Repeat("some data, ", 20_000)
	want := strings.ToUpper(sent)
	for name, tc := range sources {
		t.Run(name, func(t *testing.T) {
			guest := *guest
			guest.t = t
			in, out := newChannel(t, client), newChannel(t, client)
			payload, err := json.Marshal(map[string]any{"in": map[string]any{"reader": in.Reader}, "out": []any{out.Writer}})
			if err != nil {
				t.Fatal(err)
			}
			received := make(chan []byte, 1)
			go func() { received <- copyThrough(t, client, in.Writer, out.Reader, sent) }()
			request := callRequest(tc.language, guest.mustPlant(tc.language, tc.source), string(payload))
			request.Bus = wire.Bus{BusURL: url + "/?token=let-me.in", WorkerName: "w"}
			reply := guest.exec(wire.CommandCall, request)
			if reply.Error != nil {
				t.Fatalf("%v\n%s\n%s", reply.Error, reply.Error.Stack, reply.Logs)
			}
			// The payload is data again in the result.
			wantResult, _ := json.Marshal([]any{len(sent), "read", json.RawMessage(payload)})
			if !sameJSON(t, reply.Result, wantResult) {
				t.Errorf("want %s, got %s", wantResult, reply.Result)
			}
			if got := <-received; string(got) != want {
				t.Errorf("%d bytes arrived, want %d", len(got), len(sent))
			}
		})
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	normal := func(text []byte) string {
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Error(err)
		}
		sorted, _ := json.Marshal(value)
		return string(sorted)
	}
	return normal(a) == normal(b)
}

func copyThrough(t *testing.T, client *bus.Client, in, out protocol.ChannelRef, data string) []byte {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	writer, err := client.OpenWriter(ctx, in)
	if err != nil {
		t.Error(err)
		return nil
	}
	reader, err := client.OpenReader(ctx, out)
	if err != nil {
		t.Error(err)
		return nil
	}
	if _, err := io.Copy(writer, strings.NewReader(data)); err != nil {
		t.Error(err)
	}
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
	var received bytes.Buffer
	if _, err := io.Copy(&received, reader); err != nil {
		t.Error(err)
	}
	return received.Bytes()
}

// Without access to the bus, or in a payload that only looks like it, references
// are data.
func TestChannels_stayData(t *testing.T) {
	guest := newBusGuest(t)
	reference := `{"channel_id":"c","access_key":"k","direction":"read"}`
	for language, source := range map[wire.Language]string{
		wire.Node:   `export const handler = (p) => [typeof p.readAll, p];`,
		wire.Python: "def handler(p): return [str(hasattr(p, 'read_all')), p]\n",
	} {
		digest := guest.mustPlant(language, source)
		for _, tc := range []struct{ payload, url, want string }{
			{reference, "", `undefined False`},
			{strings.Replace(reference, "read", "both", 1), "ws://127.0.0.1:9", `undefined False`},
			{strings.Replace(reference, `"k"`, `7`, 1), "ws://127.0.0.1:9", `undefined False`},
			{reference, "ws://127.0.0.1:9", `function True`},
		} {
			request := callRequest(language, digest, tc.payload)
			request.BusURL = tc.url
			reply := guest.exec(wire.CommandCall, request)
			var got []json.RawMessage
			if err := json.Unmarshal(reply.Result, &got); err != nil {
				t.Fatalf("%s: %s %v", language, reply.Result, reply.Error)
			}
			if word := strings.Trim(string(got[0]), `"`); !strings.Contains(tc.want, word) || !sameJSON(t, got[1], []byte(tc.payload)) {
				t.Errorf("%s: %s became %s", language, tc.payload, reply.Result)
			}
		}
	}
}

// A reference that is only passed on costs no SDK: requests of http triggers
// always hold two.
func TestChannels_loadTheSDKOnUse(t *testing.T) {
	guest := newGuest(t)
	folder := filepath.Join(t.TempDir(), "packages")
	writePythonSDK(t, folder, "raise SystemError('loaded')\n")
	guest.env = append(guest.env, packagesVariable+"="+folder)
	replaceNodeSDK(t, guest, hangingNodeSDK)
	for language, source := range map[wire.Language]string{
		wire.Node: `export async function handler(p) {
  const { stream, ...rest } = Object.getOwnPropertyDescriptors(p);
  return [stream === undefined && p.other === undefined && (await p) === p && !('readAll' in p), p];
}`,
		wire.Python: "def handler(p): return [not hasattr(p, 'other') and not hasattr(p, '__len') and isinstance(p, dict), p]\n",
	} {
		request := callRequest(language, guest.mustPlant(language, source), `{"channel_id":"c","access_key":"k","direction":"read"}`)
		request.BusURL = "ws://127.0.0.1:9"
		want := `[true,{"channel_id":"c","access_key":"k","direction":"read"}]`
		if reply := guest.exec(wire.CommandCall, request); string(reply.Result) != want {
			t.Errorf("%s: want %s, got %s %v", language, want, reply.Result, reply.Error)
		}
	}
}

// The helpers of the SDKs make channels through iii.
func TestChannels_helpers(t *testing.T) {
	guest := newBusGuest(t)
	url, _ := newEngine(t)
	sources := map[wire.Language]string{
		wire.Node: `import { createChannel } from 'iii-sdk/helpers';
const { writer, reader } = await createChannel(iii, 4);
writer.stream.end('through');
export default (await reader.readAll()).toString();`,
		wire.Python: `import asyncio
from iii.helpers import create_channel
channel = create_channel(iii, 4)
async def through():
  await channel.writer.write(b'through')
  await channel.writer.close_async()
  return (await channel.reader.read_all()).decode()
result = asyncio.run(through())
`,
	}
	for language, source := range sources {
		reply := guest.run(language, source, func(r *wire.RunRequest) { r.Bus = wire.Bus{BusURL: url, WorkerName: "w"} })
		if string(reply.Result) != `"through"` || reply.Run.ExitCode != 0 {
			t.Errorf("%s: %s %+v", language, reply.Result, reply.Run)
		}
	}
}

// X25: two processes of one function, and a child that a program forks, are
// workers at the same time.
func TestIII_workersHaveNamesOfTheirOwn(t *testing.T) {
	guest := newBusGuest(t)
	url, client := newEngine(t)
	both := make(chan struct{})
	var mutex sync.Mutex
	waiting := 0
	err := client.RegisterFunction(bus.Function{ID: "test::meet", Handler: func(ctx context.Context, _ bus.Invocation) (json.RawMessage, error) {
		mutex.Lock()
		if waiting++; waiting == 2 {
			close(both)
		}
		mutex.Unlock()
		select {
		case <-both:
			return json.RawMessage(`"met"`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	awaitFunction(t, client, "test::meet")
	source := "def handler(p): return iii.trigger({'function_id': 'test::meet', 'payload': None})\n"
	request := callRequest(wire.Python, guest.mustPlant(wire.Python, source), "0")
	request.Bus = wire.Bus{BusURL: url, WorkerName: "sandbox-code-runner:shop::price"}
	first, second := guest.inBackground(wire.CommandCall, request), guest.inBackground(wire.CommandCall, request)
	for _, replies := range []<-chan wire.Reply{first, second} {
		if reply := <-replies; string(reply.Result) != `"met"` {
			t.Errorf("got %s %v\n%s", reply.Result, reply.Error, reply.Logs)
		}
	}
	// The engine learns a worker's name a moment after its first call.
	forking := `import os, time
def await_workers(count):
  while True:
    workers = iii.trigger({'function_id': 'engine::workers::list', 'payload': {}})['workers']
    if sum((worker['name'] or '').startswith('forks:') for worker in workers) == count: return
    time.sleep(0.01)
await_workers(1)
child = os.fork()
if child == 0:
  await_workers(2)
  os._exit(5)
result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
`
	reply := guest.run(wire.Python, forking, func(r *wire.RunRequest) { r.Bus = wire.Bus{BusURL: url, WorkerName: "forks"} })
	if string(reply.Result) != "5" {
		t.Errorf("a forked child: %s %+v", reply.Result, reply.Run)
	}
}

func awaitFunction(t *testing.T, client *bus.Client, id string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is registered", id), func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		info, err := client.FunctionInfo(ctx, id, "")
		return err == nil && info.FunctionID == id
	})
}
