package controllers_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/controllers"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
	"github.com/sandbox-operator/sandbox-operator/controllers/operatortest"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// patience bounds what the operator does by itself, on a busy machine.
const patience = 40 * time.Second

// TestOperator_startsBeforeTheAPIServer has the server refuse connections, then
// fail, and then work.
func TestOperator_startsBeforeTheAPIServer(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, g)
	ended := w.start(t)
	g.Eventually(w.logs.String).WithTimeout(patience).Should(And(
		ContainSubstring("The API server cannot be used yet"), ContainSubstring("connection refused")))
	w.server.listen()
	g.Eventually(w.logs.String).WithTimeout(patience).Should(ContainSubstring("the server is currently unable to handle the request"))
	g.Expect(ended).NotTo(Receive())
	w.server.works.Store(true)
	g.Eventually(w.find).WithTimeout(patience).WithArguments(t.Context(), "sandbox-code-runner::run").Should(Succeed())
	g.Expect(w.logs.String()).To(ContainSubstring("The API server can be used"))
	g.Expect(ended).NotTo(Receive())
}

// TestOperator_servesAgainWithoutTheAPIServer stacks two faults: the daemon is away
// for a moment, and when it is back no status can be written.
func TestOperator_servesAgainWithoutTheAPIServer(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, g)
	w.server.works.Store(true)
	w.server.listen()
	w.start(t)
	source := "handler v1"
	fn := &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "price"},
		Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID: "shop::price", Language: v1alpha1.LanguageNode, Source: v1alpha1.FunctionSource{Inline: &source},
		},
	}
	g.Expect(w.environment.Client.Create(t.Context(), fn)).To(Succeed())
	reason := func() string {
		g.Expect(w.environment.Client.Get(t.Context(), client.ObjectKeyFromObject(fn), fn)).To(Succeed())
		if ready := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ReadyCondition); ready != nil {
			return ready.Reason
		}
		return ""
	}
	g.Eventually(reason).WithTimeout(patience).Should(Equal(v1alpha1.ReadyReason))
	g.Expect(w.call(t.Context(), "shop::price")).To(Equal(source))

	w.provider.away.Store(true)
	g.Eventually(reason).WithTimeout(patience).Should(Equal(v1alpha1.DaemonUnavailableReason))
	g.Eventually(w.find).WithTimeout(patience).WithArguments(t.Context(), "shop::price").ShouldNot(Succeed())
	w.server.works.Store(false)
	w.provider.away.Store(false)
	g.Eventually(w.call).WithTimeout(patience).WithArguments(t.Context(), "shop::price").Should(Equal(source))
	g.Expect(reason()).To(Equal(v1alpha1.DaemonUnavailableReason), "nothing could be written")

	w.server.works.Store(true)
	g.Eventually(reason).WithTimeout(patience).Should(Equal(v1alpha1.ReadyReason))
}

// world is an operator with an API server that may falter, an engine, and a back
// end in memory.
type world struct {
	environment *testenv.Environment
	namespace   string
	server      *lateServer
	provider    *flaky
	peer        *bus.Client
	busURL      string
	logs        *operatortest.Logs
}

func newWorld(t *testing.T, g *WithT) *world {
	t.Helper()
	w := &world{logs: &operatortest.Logs{}, provider: &flaky{Provider: fake.New()}}
	w.provider.OnExec(operatortest.NewGuest(w.provider.Provider).Exec)
	var err error
	w.environment, err = testenv.Start(testenv.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(w.environment.Stop()).To(Succeed()) })
	w.namespace, err = w.environment.NewNamespace(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	w.peer, w.busURL = startEngine(t, g)
	w.server = newLateServer(t, g, w.environment.Config)
	ctrl.SetLogger(w.logs.Logger())
	return w
}

// start runs the operator until the end of the test. The channel gets its end.
func (w *world) start(t *testing.T) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		ended <- w.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-over
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the operator ended with %v", err)
			}
		default: // the test has received it
		}
		if t.Failed() {
			t.Log(w.logs.String())
		}
	})
	return ended
}

// run is what the program does.
func (w *world) run(ctx context.Context) error {
	mgr, err := ctrl.NewManager(w.server.config(), ctrl.Options{
		Scheme: w.environment.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		// The names of controllers are unique per process otherwise.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache:      cache.Options{DefaultTransform: controllers.SlimCache},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
	if err != nil {
		return err
	}
	op, err := controllers.New(ctx, mgr, controllers.Options{
		BusURL: w.busURL, GuestBusURL: w.busURL, WorkerName: "sandbox-code-runner",
		RunsNamespace: w.namespace, OperatorNamespace: w.namespace,
		DefaultTimeout: operatortest.DefaultTimeout, MaxTimeout: 30 * time.Second, IdleTimeout: time.Hour,
		Provider: w.provider, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	if err := op.Register(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// find asks the engine for a function.
func (w *world) find(ctx context.Context, function string) error {
	_, err := w.peer.FunctionInfo(ctx, function, "")
	return err
}

// call returns the text that a function answers.
func (w *world) call(ctx context.Context, function string) (answer string, err error) {
	data, err := w.peer.Call(ctx, bus.Call{FunctionID: function, Data: json.RawMessage("{}")})
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	return answer, err
}

// flaky is a back end whose list cannot be read while it is away.
type flaky struct {
	*fake.Provider
	away atomic.Bool
}

func (f *flaky) List(ctx context.Context) ([]sandbox.Info, error) {
	if f.away.Load() {
		return nil, sandbox.NewUnavailableError(errors.New("away"))
	}
	return f.Provider.List(ctx)
}

// startEngine starts an engine and a worker on it.
func startEngine(t *testing.T, g *WithT) (peer *bus.Client, busURL string) {
	t.Helper()
	e, err := engine.New(engine.Config{
		Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}, HTTPAddress: "127.0.0.1:0",
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(e.Start(t.Context())).To(Succeed())
	peer, err = bus.New(bus.Options{URL: e.URL("workers"), Name: "peer"})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- peer.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
		g.Expect(e.Close(context.Background())).To(Succeed())
	})
	g.Expect(peer.WaitConnected(t.Context())).To(Succeed())
	return peer, e.URL("workers")
}

// lateServer is a way to an API server that refuses connections until listen, and
// requests until works is true.
type lateServer struct {
	works   atomic.Bool
	address string
	listen  func()
}

func newLateServer(t *testing.T, g *WithT, up *rest.Config) *lateServer {
	t.Helper()
	transport, err := rest.TransportFor(up)
	g.Expect(err).NotTo(HaveOccurred())
	target, err := url.Parse(up.Host)
	g.Expect(err).NotTo(HaveOccurred())
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	late := &lateServer{}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !late.works.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	})}
	socket, address := bindOnly(g)
	late.address = address
	late.listen = func() {
		g.Expect(unix.Listen(int(socket.Fd()), unix.SOMAXCONN)).To(Succeed())
		listener, err := net.FileListener(socket)
		g.Expect(err).NotTo(HaveOccurred())
		go func() { _ = server.Serve(listener) }()
	}
	t.Cleanup(func() { g.Expect(errors.Join(server.Close(), socket.Close())).To(Succeed()) })
	return late
}

func (s *lateServer) config() *rest.Config { return &rest.Config{Host: "http://" + s.address} }

// bindOnly takes a port of loopback that refuses connections for as long as nobody
// listens, and that nobody else can take meanwhile.
func bindOnly(g *WithT) (socket *os.File, address string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	g.Expect(err).NotTo(HaveOccurred())
	socket = os.NewFile(uintptr(fd), "late API server")
	g.Expect(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})).To(Succeed())
	bound, err := unix.Getsockname(fd)
	g.Expect(err).NotTo(HaveOccurred())
	name := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: bound.(*unix.SockaddrInet4).Port}
	return socket, name.String()
}
