package shim

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// guidanceTriggerType is the hook of agents' harnesses before they generate.
const guidanceTriggerType = "harness::hook::pre-generate"

// guidanceText is written for DefaultWorkerName.
//
//go:embed guidance.md
var guidanceText string

func (s *Shim) guidance() string {
	return strings.TrimSpace(strings.ReplaceAll(guidanceText, DefaultWorkerName+separator, s.WorkerName+separator))
}

type guidanceResponse struct {
	// Mutations is empty to leave the prompt alone.
	Mutations map[string]string `json:"mutations"`
}

// injectGuidance answers with the whole prompt, because the harness does not
// merge; without a base it leaves the harness's own alone (contracts/code-runner.md
// §4.5).
func (s *Shim) injectGuidance(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
	var request struct {
		Generate struct {
			SystemPrompt string `json:"system_prompt"`
		} `json:"generate"`
	}
	response := guidanceResponse{Mutations: map[string]string{}}
	// A payload of another form has no base either.
	if json.Unmarshal(inv.Data, &request) == nil && request.Generate.SystemPrompt != "" {
		response.Mutations["system_prompt"] = request.Generate.SystemPrompt + "\n\n" + s.guidance()
	}
	return encode(response)
}

// guidanceTrigger waits quietly where no harness provides the hook. The hook
// fails closed unless told otherwise, and guidance may stop no turn.
func (s *Shim) guidanceTrigger() (bus.Trigger, error) {
	id := s.WorkerName + separator + guidanceName
	metadata, err := encode(map[string]any{"internal": true, "guidance": s.guidance()})
	return bus.Trigger{
		ID: id, Type: guidanceTriggerType, FunctionID: id,
		Config: json.RawMessage(`{"on_error":"fail_open"}`), Metadata: metadata,
	}, err
}
