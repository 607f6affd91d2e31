package operatortest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// Logs keeps what the operator logs. The zero value is ready.
type Logs struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (l *Logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

// String returns everything so far.
func (l *Logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// Logger logs into l on all levels.
func (l *Logs) Logger() logr.Logger { return zap.New(zap.WriteTo(l), zap.UseDevMode(true)) }

// Leaks names the places in which a sandbox id of this stack is written: objects,
// their status, events, and the given logs (design rule 2).
func (s *Stack) Leaks(ctx context.Context, logs *Logs) ([]string, error) {
	places := map[string]string{"logs": logs.String()}
	lists := []client.ObjectList{
		&v1alpha1.SandboxFunctionList{}, &v1alpha1.SandboxRuntimeList{}, &v1alpha1.SandboxRunList{}, &eventsv1.EventList{},
	}
	for _, list := range lists {
		if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return nil, err
		}
		text, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		places[fmt.Sprintf("%T", list)] = string(text)
	}
	ids := map[string]bool{}
	for _, call := range s.Provider.Calls(fake.Exec, fake.Stop, fake.WriteFile) {
		ids[call.ID.Reveal()] = true
	}
	var leaks []string
	for place, text := range places {
		for id := range ids {
			if strings.Contains(text, id) {
				leaks = append(leaks, place)
				break
			}
		}
	}
	return leaks, nil
}

// Objects shows the functions, runtimes and runs of the stack, for the report of a
// spec that failed.
func (s *Stack) Objects(ctx context.Context) string {
	var text strings.Builder
	for _, list := range []client.ObjectList{
		&v1alpha1.SandboxFunctionList{}, &v1alpha1.SandboxRuntimeList{}, &v1alpha1.SandboxRunList{},
	} {
		err := s.Client.List(ctx, list, client.InNamespace(s.Namespace))
		shown, encodeErr := yaml.Marshal(list)
		fmt.Fprintf(&text, "%T %v %v\n%s\n", list, err, encodeErr, shown)
	}
	return text.String()
}

// Reconciles counts the reconciliations of a controller in this process so far.
func Reconciles(controller string) (float64, error) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == controller {
					total += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return total, nil
}
