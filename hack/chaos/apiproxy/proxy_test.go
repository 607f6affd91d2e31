package apiproxy_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/sandbox-operator/sandbox-operator/hack/chaos/apiproxy"
)

const token = "the-token"

// scene is a proxy before a server that counts, and a client behind it.
type scene struct {
	proxy  *apiproxy.Proxy
	client *kubernetes.Clientset
	// writes counts the requests that reached the server, reads those that ended.
	writes, reads atomic.Int32
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{}
	dir := t.TempDir()
	files := apiproxy.Files{
		Certificate: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key"),
		Kubeconfig: filepath.Join(dir, "before"), Rewritten: filepath.Join(dir, "after"),
	}
	server := s.startServer(t, files)
	authority, err := os.ReadFile(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, files.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	if s.proxy, err = apiproxy.New(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	behind, err := clientcmd.BuildConfigFromFlags("", files.Rewritten)
	if err != nil {
		t.Fatal(err)
	}
	if s.client, err = kubernetes.NewForConfig(behind); err != nil {
		t.Fatal(err)
	}
	return s
}

// startServer serves ConfigMaps, badly: all are the same, and watches never end.
func (s *scene) startServer(t *testing.T, files apiproxy.Files) string {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(files.Certificate, certificate, 0o600), os.WriteFile(files.Key, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func (s *scene) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	if r.Method == http.MethodPost {
		s.writes.Add(1)
	} else {
		s.reads.Add(1)
	}
	_, _ = io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`)
}

func (s *scene) read(ctx context.Context) error {
	_, err := s.client.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{})
	return err
}

func (s *scene) write(ctx context.Context) error {
	_, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{}, metav1.CreateOptions{})
	return err
}

func always(number float64) func() float64 { return func() float64 { return number } }

func TestProxy_faults(t *testing.T) {
	cut := func(err error) bool { return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }
	none := func(err error) bool { return err == nil }
	for name, tc := range map[string]struct {
		fault                 apiproxy.Fault
		wantRead, wantWrite   func(error) bool
		wantReads, wantWrites int32
	}{
		"none":               {nil, none, none, 1, 1},
		"conflicts":          {apiproxy.Conflicts(always(0.3), 0.5), none, apierrors.IsConflict, 1, 0},
		"a chance not taken": {apiproxy.Conflicts(always(0.7), 0.5), none, none, 1, 1},
		"errors":             {apiproxy.Failures(always(0.25), 0.5), apierrors.IsInternalError, apierrors.IsInternalError, 0, 0},
		"unavailable":        {apiproxy.Failures(always(0.49), 0.5), apierrors.IsServiceUnavailable, apierrors.IsServiceUnavailable, 0, 0},
		"cut before":         {apiproxy.Cuts(always(0.4), 0.5), cut, cut, 0, 0},
		"cut after":          {apiproxy.Cuts(always(0.1), 0.5), cut, cut, 1, 1},
		"delays":             {apiproxy.Delays(always(0.5), 100*time.Millisecond), none, none, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.proxy.SetFault(tc.fault)
			if err := s.read(t.Context()); !tc.wantRead(err) {
				t.Errorf("a read ends with %v", err)
			}
			if err := s.write(t.Context()); !tc.wantWrite(err) {
				t.Errorf("a write ends with %v", err)
			}
			if diff := cmp.Diff([]int32{tc.wantReads, tc.wantWrites}, []int32{s.reads.Load(), s.writes.Load()}); diff != "" {
				t.Errorf("reads and writes that reached the server (-want +got):\n%s", diff)
			}
			s.proxy.SetFault(nil)
			if err := s.read(t.Context()); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
	}
}

func TestProxy_CutWatches(t *testing.T) {
	s := newScene(t)
	watch, err := s.client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	select {
	case event := <-watch.ResultChan():
		t.Fatalf("the watch ended too early: %v", event)
	case <-time.After(200 * time.Millisecond):
	}
	s.proxy.CutWatches()
	select {
	case <-watch.ResultChan():
	case <-time.After(time.Minute):
		t.Fatal("the watch goes on")
	}
	if err := s.read(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestChance_sameSeedSameNumbers(t *testing.T) {
	first, second := apiproxy.Chance(7), apiproxy.Chance(7)
	for i := range 100 {
		if a, b := first(), second(); a != b || a < 0 || a >= 1 {
			t.Fatal(fmt.Sprint(i, a, b))
		}
	}
}
