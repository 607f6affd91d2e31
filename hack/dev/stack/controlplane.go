package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Patience and grace of the control plane's programs: many times what they need
// on an idle machine, since builds may run beside them.
const (
	startPatience = 90 * time.Second
	stopGrace     = 20 * time.Second
)

// portAttempts is how often a program is started anew on other ports after
// another one took its port in between.
const portAttempts = 3

// launchOnSamePorts is launchOnFreePorts for a part whose clients must find it again
// when it is started once more; kept remembers its ports. The mutex is held.
func (s *Stack) launchOnSamePorts(ctx context.Context, kept *[]int, count int, describe func(ports []int) program) (*process, error) {
	if *kept != nil {
		return launch(ctx, s.nursery, s.options.LogDir, describe(*kept))
	}
	p, ports, err := s.launchOnFreePorts(ctx, count, describe)
	*kept = ports
	return p, err
}

// launchOnFreePorts starts a program that cannot choose its ports itself.
func (s *Stack) launchOnFreePorts(ctx context.Context, count int, describe func(ports []int) program) (*process, []int, error) {
	for attempt := 1; ; attempt++ {
		ports, err := freePorts(ctx, count)
		if err != nil {
			return nil, nil, err
		}
		p, err := launch(ctx, s.nursery, s.options.LogDir, describe(ports))
		if err == nil {
			return p, ports, nil
		}
		if attempt == portAttempts || !strings.Contains(err.Error(), "address already in use") {
			return nil, nil, err
		}
	}
}

func (s *Stack) startEtcd(ctx context.Context) (stopper, string, error) {
	p, err := s.launchOnSamePorts(ctx, &s.etcdPorts, 2, func(ports []int) program {
		client, peer := loopback("http", ports[0]), loopback("http", ports[1])
		return program{
			name: string(Etcd), path: filepath.Join(s.options.Assets, "etcd"),
			args: []string{
				"--name=dev", "--data-dir=" + filepath.Join(s.stateDir(), "etcd"), "--unsafe-no-fsync", "--log-level=warn",
				"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
				"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=dev=" + peer,
			},
			ready:    httpReady(client + "/health"),
			patience: startPatience, grace: stopGrace, onOurDeath: syscall.SIGKILL,
		}
	})
	if err != nil {
		return nil, "", err
	}
	s.etcdURL = loopback("http", s.etcdPorts[0])
	return p, s.etcdURL, nil
}

func (s *Stack) startAPIServer(ctx context.Context) (stopper, string, error) {
	c := s.credentials
	audit, err := s.auditFlags()
	if err != nil {
		return nil, "", err
	}
	p, err := s.launchOnSamePorts(ctx, &s.apiServerPorts, 1, func(ports []int) program {
		return program{
			name: string(APIServer), path: filepath.Join(s.options.Assets, "kube-apiserver"),
			args: append(audit,
				"--etcd-servers="+s.etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
				fmt.Sprintf("--secure-port=%d", ports[0]), "--cert-dir="+c.dir,
				"--authorization-mode=RBAC", "--token-auth-file="+c.tokens(),
				"--service-account-issuer=https://kubernetes.default.svc",
				"--service-account-key-file="+c.publicKey(), "--service-account-signing-key-file="+c.privateKey(),
				"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
			),
			ready:    httpsReady(loopback("https", ports[0])+"/readyz", c.certificate(), c.admin),
			patience: startPatience, grace: stopGrace, onOurDeath: syscall.SIGKILL,
		}
	})
	if err != nil {
		return nil, "", err
	}
	server := loopback("https", s.apiServerPorts[0])
	return p, server, s.writeKubeconfigs(server)
}

func (s *Stack) writeKubeconfigs(server string) error {
	c := s.credentials
	if err := writeKubeconfig(s.Kubeconfig, server, c.certificate(), c.admin, "default"); err != nil {
		return err
	}
	return writeKubeconfig(s.OperatorKubeconfig, server, c.certificate(), c.operator, s.account.namespace)
}

// startControllerManager starts the controllers without which objects are not
// really deleted: garbage collection and namespaces, and those that a namespace
// needs to be usable.
func (s *Stack) startControllerManager(ctx context.Context) (stopper, string, error) {
	c := s.credentials
	controllers := []string{
		"garbage-collector-controller", "namespace-controller", "serviceaccount-controller",
		"serviceaccount-token-controller", "root-ca-certificate-publisher-controller", "clusterrole-aggregation-controller",
	}
	certificates := filepath.Join(c.dir, "kcm")
	p, ports, err := s.launchOnFreePorts(ctx, 1, func(ports []int) program {
		url := loopback("https", ports[0])
		return program{
			name: string(ControllerManager), path: filepath.Join(s.options.Assets, "kube-controller-manager"),
			args: []string{
				"--kubeconfig=" + s.Kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1",
				fmt.Sprintf("--secure-port=%d", ports[0]), "--cert-dir=" + certificates,
				"--service-account-private-key-file=" + c.privateKey(), "--root-ca-file=" + c.certificate(),
				"--controllers=" + strings.Join(controllers, ","),
			},
			ready:    httpsReady(url+"/healthz", filepath.Join(certificates, "kube-controller-manager.crt"), ""),
			patience: startPatience, grace: stopGrace, onOurDeath: syscall.SIGKILL,
		}
	})
	if err != nil {
		return nil, "", err
	}
	return p, loopback("https", ports[0]), nil
}

func loopback(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

// prepareFolders makes what the programs expect to exist. A state folder that is
// there already was left by a stack that was killed.
func (s *Stack) prepareFolders() error {
	if err := os.RemoveAll(s.stateDir()); err != nil {
		return err
	}
	for _, dir := range []string{s.stateDir(), s.options.LogDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// The logs of the stack before this one.
	for _, part := range startOrder {
		if err := removeIfThere(s.LogPath(part)); err != nil {
			return err
		}
	}
	return removeIfThere(s.AuditPath())
}
