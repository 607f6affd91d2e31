package engine_test

import (
	"testing"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// BenchmarkEngine_call measures one call from worker to worker and back, over
// two sockets.
func BenchmarkEngine_call(b *testing.B) {
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close(b.Context()) }()
	socket, _, err := websocket.Dial(b.Context(), e.URL("workers"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = socket.CloseNow() }()
	w := rawWorker{b, socket}
	w.write(&protocol.InvokeFunction{FunctionID: protocol.FunctionWorkersRegister, Data: raw(map[string]string{"name": "b"})})
	w.write(&protocol.RegisterFunction{ID: "f::x"})
	w.read()
	for b.Loop() {
		w.write(&protocol.InvokeFunction{InvocationID: uuid.NewString(), FunctionID: "f::x", Data: raw(map[string]int{"n": 1})})
		asked := w.read().(*protocol.InvokeFunction)
		w.write(&protocol.InvocationResult{InvocationID: asked.InvocationID, FunctionID: "f::x", Result: asked.Data})
		w.read()
	}
}

// rawWorker reads and writes in step.
type rawWorker struct {
	b      *testing.B
	socket *websocket.Conn
}

func (w rawWorker) write(msg protocol.Message) {
	frame, err := protocol.Encode(msg)
	if err != nil {
		w.b.Fatal(err)
	}
	if err := w.socket.Write(w.b.Context(), websocket.MessageText, frame); err != nil {
		w.b.Fatal(err)
	}
}

func (w rawWorker) read() protocol.Message {
	_, frame, err := w.socket.Read(w.b.Context())
	if err != nil {
		w.b.Fatal(err)
	}
	msg, err := protocol.Decode(frame)
	if err != nil {
		w.b.Fatal(err)
	}
	return msg
}
