package main

import (
	"context"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// The credential in III_URL reaches the engine, and does not stand in the way of
// data channels, whose address the SDK derives from that of the bus.
func TestIII_credentialInTheURL(t *testing.T) {
	guest := newBusGuest(t)
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{
		{Name: "guests", Address: "127.0.0.1:0", Policy: &engine.Policy{Token: "let-me.in"}},
	}})
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
	for language, source := range map[wire.Language]string{
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
	} {
		for name, path := range map[string]string{"with a path": "/?token=let-me.in", "without a path": "?token=let-me.in"} {
			reply := guest.run(language, source, func(r *wire.RunRequest) {
				r.Bus = wire.Bus{BusURL: e.URL("guests") + path, WorkerName: "w"}
			})
			if string(reply.Result) != `"through"` || reply.Run.ExitCode != 0 {
				t.Errorf("%s %s: %s %+v", language, name, reply.Result, reply.Run)
			}
		}
	}
}
