// Package stack runs the whole of sandbox-operator on one machine, on loopback:
// etcd, kube-apiserver and kube-controller-manager, the embedded engine, the
// sandbox daemon and the operator. Each of them but the engine is a process of
// its own, as in a cluster. hack/dev, the demo, the benchmarks and the
// end-to-end tests start their parts through it.
//
// Nothing it starts outlives it: Stop ends everything in order, a failed Start
// does the same, and the kernel ends the processes if this one is killed.
package stack
