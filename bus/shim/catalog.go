package shim

import (
	"embed"
	"encoding/json"
	"slices"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// schemas are draft-07 (contracts/code-runner.md §3.1).
//
//go:embed schemas
var schemas embed.FS

// Names of functions, without the worker's prefix.
const (
	runName          = "run"
	teardownName     = "teardown"
	registerName     = "register_function"
	listName         = "list_runtimes"
	guidanceName     = "inject-guidance"
	workerChangeName = "on-worker-change"
)

// reservedNames nobody may register (§6): the functions here, the event type, and
// the functions of the original's console and configuration, which are not
// answered.
var reservedNames = []string{
	runName, teardownName, registerName, listName, guidanceName, workerChangeName, "event", "ui-content", "on-config-change",
}

// hidden keeps a function out of agents' sight.
var hidden = json.RawMessage(`{"internal":true}`)

// functions are in the order of the original's catalog (§18 K01).
func (s *Shim) functions() []bus.Function {
	return []bus.Function{
		s.function(runName, "Run a Node or Python program in an isolated microVM and return what it prints. "+
			"Nothing persists unless keep is true; the returned runtime_id is a secret that runs code in the same files again.",
			nil, answer(s, decodeRun, s.run)),
		s.function(teardownName, "Destroy a kept runtime (runtime_id), or every function that was registered under an id prefix (namespace).",
			nil, answer(s, decodeTeardown, s.teardown)),
		s.function(registerName, "Publish a bus function whose source defines handler(payload). It runs in a microVM shared "+
			"by the functions of its id prefix and language, and stays until teardown.",
			nil, answer(s, decodeRegister, s.registerFunction)),
		s.function(listName, "List the runtimes that are kept or serve registered functions, the newest first.",
			nil, answer(s, decodeList, s.listRuntimes)),
		s.function(guidanceName, "Adds guidance about this worker to an agent's system prompt.", hidden, s.injectGuidance),
	}
}

// internalFunctions serve this worker itself.
func (s *Shim) internalFunctions() []bus.Function {
	return []bus.Function{
		s.function(workerChangeName, "Ends the runs of callers that disconnect.", hidden, s.onWorkerChange),
	}
}

func (s *Shim) function(name, description string, metadata json.RawMessage, handler bus.Handler) bus.Function {
	return bus.Function{
		ID: s.WorkerName + separator + name, Description: description, Metadata: metadata, Handler: handler,
		RequestFormat: schemaOf(name + ".request"), ResponseFormat: schemaOf(name + ".response"),
	}
}

// schemaOf is embedded, so a missing one is found by any test.
func schemaOf(name string) json.RawMessage {
	data, err := schemas.ReadFile("schemas/" + name + ".json")
	if err != nil {
		panic(err)
	}
	return data
}

// triggers bind our own functions to the types of others.
func (s *Shim) triggers() ([]bus.Trigger, error) {
	change := s.WorkerName + separator + workerChangeName
	triggers := []bus.Trigger{{ID: change, Type: workersTriggerType, FunctionID: change, Metadata: hidden}}
	if !s.InjectGuidance {
		return triggers, nil
	}
	guidance, err := s.guidanceTrigger()
	return slices.Concat(triggers, []bus.Trigger{guidance}), err
}
