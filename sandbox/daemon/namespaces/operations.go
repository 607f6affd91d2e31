package namespaces

import (
	"context"
	"encoding/json"
	"io"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// operate has the agent do a file operation. Its context ends it in the guest
// too.
func (m *machine) operate(ctx context.Context, op wire.Operation, arguments any) ([]byte, error) {
	text, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	session, stop, err := m.ask(ctx, request{Op: op, Arguments: text})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	defer stop()
	if _, err := m.answer(ctx, session); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(&wire.ChunkReader{Source: session}, wire.ResultLimit+1))
	if err != nil {
		return nil, m.lost(ctx, err)
	}
	return content, nil
}
