package main

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Names of what the storm goes over.
const (
	chaosNamespace = "chaos"
	runtimeName    = "workshop"
	// busFunction is the one that is registered over the bus.
	busFunction = "hired::hand"
)

// callTimeout is that of the functions.
const callTimeout = 20_000

// subject is a function that is called and edited. Its code says its id, its version
// and the call's token.
type subject struct {
	id     string
	object *v1alpha1.SandboxFunction

	mutex sync.Mutex
	// confirmed is the newest version that its status said was served, written the
	// newest that may have been applied.
	confirmed, written int
}

// versions are what a call may be answered by now.
func (s *subject) versions() (oldest, newest int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.confirmed, s.written
}

func (s *subject) confirm(version int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.confirmed = max(s.confirmed, version)
}

// next is the version to write now.
func (s *subject) next() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.written++
	return s.written
}

// versionAnnotation is written together with the source of that version.
const versionAnnotation = "chaos.example/version"

func sourceOf(language v1alpha1.Language, id string, version int) string {
	if language == v1alpha1.LanguageNode {
		return fmt.Sprintf(`export async function handler(payload) {
  await new Promise((done) => setTimeout(done, 40));
  return { id: %q, version: %d, token: payload.token };
}
`, id, version)
	}
	return fmt.Sprintf(`import time

def handler(payload, context):
    time.sleep(0.04)
    return {"id": %q, "version": %d, "token": payload["token"]}
`, id, version)
}

// newSubjects are one of each way to have a runtime: shared by prefix and language,
// referred to, and an own one with two sandboxes.
func newSubjects() []*subject {
	shared := func(language v1alpha1.Language) func(*v1alpha1.SandboxFunctionSpec) {
		return func(spec *v1alpha1.SandboxFunctionSpec) { spec.Language = language }
	}
	return []*subject{
		newSubject("first", "mixed::first", v1alpha1.LanguageNode, shared(v1alpha1.LanguageNode)),
		newSubject("second", "mixed::second", v1alpha1.LanguageNode, shared(v1alpha1.LanguageNode)),
		newSubject("third", "mixed::third", v1alpha1.LanguagePython, shared(v1alpha1.LanguagePython)),
		newSubject("fourth", "bench::fourth", v1alpha1.LanguagePython, func(spec *v1alpha1.SandboxFunctionSpec) {
			spec.RuntimeRef = &v1alpha1.LocalReference{Name: runtimeName}
		}),
		newSubject("fifth", "twins::fifth", v1alpha1.LanguageNode, func(spec *v1alpha1.SandboxFunctionSpec) {
			spec.Runtime = &v1alpha1.FunctionRuntime{Language: v1alpha1.LanguageNode}
			spec.Runtime.Network, spec.Runtime.BusAccess = v1alpha1.AccessEnabled, v1alpha1.AccessEnabled
			spec.Runtime.Replicas = ptr.To[int32](2)
		}),
	}
}

func newSubject(name, id string, language v1alpha1.Language, runtime func(*v1alpha1.SandboxFunctionSpec)) *subject {
	f := newFunction(name, id, sourceOf(language, id, 1))
	runtime(&f.Spec)
	return &subject{id: id, object: f, written: 1}
}

func (s *subject) language() v1alpha1.Language {
	switch spec := s.object.Spec; {
	case spec.Language != "":
		return spec.Language
	case spec.Runtime != nil:
		return spec.Runtime.Language
	default:
		return v1alpha1.LanguagePython // that of the workshop
	}
}

func newFunction(name, id, source string) *v1alpha1.SandboxFunction {
	return &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: chaosNamespace, Name: name, Annotations: map[string]string{versionAnnotation: "1"}},
		Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID: id, Source: v1alpha1.FunctionSource{Inline: &source}, TimeoutMilliseconds: ptr.To[int32](callTimeout),
		},
	}
}

// newWorkshop has a way to the bus, so that calls go over a link.
func newWorkshop() *v1alpha1.SandboxRuntime {
	r := &v1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{Namespace: chaosNamespace, Name: runtimeName},
		Spec:       v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguagePython},
	}
	r.Spec.Network, r.Spec.BusAccess = v1alpha1.AccessEnabled, v1alpha1.AccessEnabled
	return r
}

// newRun prints its token; every second one runs in the workshop.
func newRun(number int64) *v1alpha1.SandboxRun {
	source := runSource(newToken("run", number))
	r := &v1alpha1.SandboxRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: chaosNamespace, Name: fmt.Sprintf("run-%d", number)},
		Spec: v1alpha1.SandboxRunSpec{
			Source: v1alpha1.RunSource{Inline: &source}, TimeoutMilliseconds: ptr.To[int32](callTimeout),
		},
	}
	if number%2 == 0 {
		r.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: runtimeName}
	} else {
		r.Spec.Language = v1alpha1.LanguagePython
	}
	return r
}

func runSource(token string) string {
	return "import time\ntime.sleep(0.3)\nprint('" + token + "', end='')\n"
}

// everything are the kinds of objects that a storm makes, functions first, so that
// they leave the bus before their runtimes go.
var everything = []client.Object{&v1alpha1.SandboxFunction{}, &v1alpha1.SandboxRun{}, &v1alpha1.SandboxRuntime{}}
