package stack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// probeTimeout bounds one question of a readiness check.
const probeTimeout = 5 * time.Second

// httpReady returns a check that a plain HTTP endpoint answers 200.
func httpReady(url string) func(context.Context) error {
	return func(ctx context.Context) error { return get(ctx, http.DefaultTransport, url, "") }
}

// httpsReady is httpReady for a server whose certificate is in a file that it
// writes itself while it starts.
func httpsReady(url, certificate, token string) func(context.Context) error {
	return func(ctx context.Context) error {
		pem, err := os.ReadFile(certificate)
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return errors.New("the server's certificate is not written yet")
		}
		// A transport per question: the certificate may have been half written the
		// last time. Without keep-alive no connection outlives it.
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true,
		}
		return get(ctx, transport, url, token)
	}
}

func get(ctx context.Context, transport http.RoundTripper, url, token string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Close = true
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// freePorts returns distinct loopback ports that nobody listens on. All are held
// until the last is found, so that they differ. Another program may take one
// before its user does; that user then ends at its start, and says so.
func freePorts(ctx context.Context, count int) ([]int, error) {
	var config net.ListenConfig
	ports := make([]int, 0, count)
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	for range count {
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		held = append(held, listener)
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
