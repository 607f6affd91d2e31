// Package apiproxy stands between the operator and the Kubernetes API server and
// can be made to fail as API servers and networks do.
package apiproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// Proxy is described at the package. Its methods may be called concurrently.
type Proxy struct {
	server  *http.Server
	forward *httputil.ReverseProxy
	up      *http.Transport

	mutex sync.Mutex
	fault Fault
	// watches are those that are open.
	watches map[*context.CancelFunc]struct{}
}

// Fault decides about a request before it goes on; nil faults none.
type Fault func(r *http.Request) Verdict

// Verdict is what becomes of a request. The zero value lets it pass.
type Verdict struct {
	// Status is answered in the API server's place.
	Status int
	// Delay holds the request back.
	Delay time.Duration
	// CutBefore drops the connection instead, CutAfter once the request has had its
	// effect.
	CutBefore, CutAfter bool
}

// Files are those of the API server and of the operator.
type Files struct {
	// Certificate and Key are the API server's own, which clients trust already.
	Certificate, Key string
	// Kubeconfig is what the operator would use without the proxy, Rewritten what
	// the proxy writes for it.
	Kubeconfig, Rewritten string
}

// New opens the proxy and writes the configuration that leads to it.
func New(ctx context.Context, files Files) (*Proxy, error) {
	config, err := clientcmd.LoadFromFile(files.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if len(config.Clusters) != 1 {
		return nil, fmt.Errorf("%s has %d clusters, want 1", files.Kubeconfig, len(config.Clusters))
	}
	identity, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		return nil, err
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{watches: map[*context.CancelFunc]struct{}{}}
	for _, cluster := range config.Clusters {
		if err := p.lead(cluster.Server, files.Certificate); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		cluster.Server = "https://" + listener.Addr().String()
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{identity}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }()
	return p, clientcmd.WriteToFile(*config, files.Rewritten)
}

// lead says where the API server is.
func (p *Proxy) lead(server, certificate string) error {
	target, err := url.Parse(server)
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s holds no certificate", certificate)
	}
	p.up = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	p.forward = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: p.up, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		// A server that is not there has no words.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return nil
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.up.CloseIdleConnections()
	return err
}

// SetFault replaces what goes wrong; nil ends it. The fault is asked by several
// goroutines.
func (p *Proxy) SetFault(fault Fault) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.fault = fault
}

// CutWatches ends all watches that are open.
func (p *Proxy) CutWatches() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for cancel := range p.watches {
		(*cancel)()
	}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	v := p.verdict(r)
	if v.Delay > 0 {
		select {
		case <-time.After(v.Delay):
		case <-r.Context().Done():
		}
	}
	switch {
	case v.CutBefore:
		panic(http.ErrAbortHandler)
	case v.Status != 0:
		refuse(w, v.Status)
	case v.CutAfter:
		p.forward.ServeHTTP(unheard{http.Header{}}, r)
		panic(http.ErrAbortHandler)
	case isWatch(r):
		p.watch(w, r)
	default:
		p.forward.ServeHTTP(w, r)
	}
}

func (p *Proxy) verdict(r *http.Request) Verdict {
	p.mutex.Lock()
	fault := p.fault
	p.mutex.Unlock()
	if fault == nil {
		return Verdict{}
	}
	return fault(r)
}

func (p *Proxy) watch(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	p.mutex.Lock()
	p.watches[&cancel] = struct{}{}
	p.mutex.Unlock()
	defer func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		delete(p.watches, &cancel)
	}()
	p.forward.ServeHTTP(w, r.WithContext(ctx))
}

// unheard takes an answer that nobody will see.
type unheard struct{ header http.Header }

func (u unheard) Header() http.Header         { return u.header }
func (u unheard) Write(b []byte) (int, error) { return len(b), nil }
func (u unheard) WriteHeader(int)             {}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, status int) {
	reasons := map[int]metav1.StatusReason{
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(status), Reason: reasons[status], Message: "injected by the storm",
	})
}

// isWatch says that an answer to the request has no end.
func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// Conflicts answers a share of the writes with 409.
func Conflicts(chance func() float64, share float64) Fault {
	return func(r *http.Request) Verdict {
		if isWrite(r) && chance() < share {
			return Verdict{Status: http.StatusConflict}
		}
		return Verdict{}
	}
}

// Failures answers a share of all requests with 429, 500 or 503.
func Failures(chance func() float64, share float64) Fault {
	statuses := []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
	return func(*http.Request) Verdict {
		if drawn := chance(); drawn < share {
			return Verdict{Status: statuses[int(drawn/share*float64(len(statuses)))]}
		}
		return Verdict{}
	}
}

// Delays holds each request back, for up to a longest time.
func Delays(chance func() float64, longest time.Duration) Fault {
	return func(*http.Request) Verdict { return Verdict{Delay: time.Duration(chance() * float64(longest))} }
}

// Cuts drops the connection of a share of the requests, half of them after they
// had their effect.
func Cuts(chance func() float64, share float64) Fault {
	return func(r *http.Request) Verdict {
		switch drawn := chance(); {
		case drawn >= share:
			return Verdict{}
		case drawn < share/2 && !isWatch(r):
			return Verdict{CutAfter: true}
		default:
			return Verdict{CutBefore: true}
		}
	}
}

// Chance returns a source of numbers in [0, 1) for several goroutines.
func Chance(seed uint64) func() float64 {
	var mutex sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func() float64 {
		mutex.Lock()
		defer mutex.Unlock()
		return random.Float64()
	}
}
