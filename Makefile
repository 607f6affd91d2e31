# sandbox-operator. `make help` lists the targets.
#
# Needed: Go, Node, npm, Python, make, git. Everything else is built from pinned
# sources and kept in the user's cache.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

ROOT := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
PROGRESS := hack/progress.sh
CONTROLLER_GEN := bin/tools/controller-gen
# The cluster's own kubectl where there is one.
KUBECTL ?= $(shell command -v kubectl || echo $(ROOT)/bin/k8s/kubectl)
# Image that `make deploy` puts into the Deployment.
IMG ?= sandbox-operator:latest
# What isolates guests of conformance-sandbox and bench-sandbox: namespaces or qemu.
BACKEND ?= namespaces
SHORT ?=
# What `make chaos` draws its storm from, and the faults of it to keep; none means all.
SEED ?= 1
KEEP ?=
# Fewer functions and a shorter rest in bench-scale, a minute instead of five in bench.
QUICK ?=
# All combinations in bench, and its numbers into docs.
FULL ?=
PUBLISH ?=
# Sets QEMU_ROOT for the back end that needs it, and stops where that fails.
QEMU_ROOT = $(if $(filter qemu,$(BACKEND)),QEMU_ROOT=$$(hack/conformance/sandbox/fetch-qemu.sh) || exit; export QEMU_ROOT;)
# Packages of `make test`, and further arguments for go test.
PACKAGES ?= ./...
TESTFLAGS ?=

##@ Use

.PHONY: demo
demo: controlplane build ## Start everything and show it working, step by step.
	@$(PROGRESS) "compiling the demo" go build -o bin/demo ./hack/demo
	@bin/demo

.PHONY: dev
dev: controlplane build ## Start everything and leave it running until Ctrl-C.
	@$(PROGRESS) "compiling the launcher" go build -o bin/dev ./hack/dev
	@exec bin/dev --no-build

.PHONY: install
install: controlplane manifests ## Install the CRDs into the cluster of the current kubeconfig.
	$(KUBECTL) apply --server-side -k config/crd

.PHONY: deploy
deploy: controlplane manifests ## Install the operator into that cluster, with the image IMG.
	$(KUBECTL) kustomize config/default | sed 's|image: sandbox-operator:latest|image: $(IMG)|' | $(KUBECTL) apply --server-side -f -

##@ Check

.PHONY: test
test: controlplane build ## Run all tests with the race detector on real parts.
	@KUBEBUILDER_ASSETS=$(ROOT)/bin/k8s hack/test.sh $(TESTFLAGS) $(PACKAGES)

.PHONY: e2e
e2e: controlplane build ## Run only the tests that start the whole stack.
	@KUBEBUILDER_ASSETS=$(ROOT)/bin/k8s hack/test.sh -count=1 $(TESTFLAGS) ./hack/dev/... ./hack/e2e/...

.PHONY: e2e-flux
e2e-flux: controlplane build flux ## Drive the whole stack from Git, with the real controllers of Flux.
	@KUBEBUILDER_ASSETS=$(ROOT)/bin/k8s hack/test.sh -count=1 -tags=flux $(TESTFLAGS) ./hack/e2e -ginkgo.label-filter=flux

.PHONY: verify
verify: tools guest ## Regenerate what is generated; fail if that, the format or go vet finds something.
	@hack/verify.sh

.PHONY: lint
lint: guest ## Run golangci-lint.
	@hack/tools/build.sh golangci-lint
	@$(PROGRESS) "linting" bin/tools/golangci-lint run

.PHONY: chaos
chaos: controlplane build ## Send a storm of faults over the whole stack (SEED=n; SHORT=1, KEEP=3,7 for some of its faults only).
	@$(PROGRESS) "compiling the storm" go build -o bin/chaos ./hack/chaos
	@bin/chaos -seed=$(SEED) $(if $(SHORT),-short) $(if $(KEEP),-keep=$(KEEP))

.PHONY: bench
bench: controlplane build ## Measure calls beside other ways, and more; tables, plot and out/bench.json (QUICK=1, FULL=1, SEED=n, PUBLISH=1 for docs).
	@$(PROGRESS) "compiling the benchmark" go build -o bin/bench ./hack/bench
	@bin/bench $(if $(QUICK),-quick) $(if $(FULL),-full) $(if $(filter-out file,$(origin SEED)),-seed=$(SEED)) $(if $(PUBLISH),-publish)

.PHONY: bench-bus
bench-bus: ## Measure calls over the bus against a bare WebSocket; table and out/bench-bus.json.
	@$(PROGRESS) "compiling the benchmark" go build -o bin/bench-bus ./hack/benchbus
	@bin/bench-bus

.PHONY: bench-scale
bench-scale: controlplane build ## Measure thousands of functions: writes, memory, time; table and out/bench-scale.json (QUICK=1 for fewer).
	@$(PROGRESS) "compiling the benchmark" go build -o bin/bench-scale ./hack/benchscale
	@QUICK=$(QUICK) bin/bench-scale

.PHONY: conformance-bus
conformance-bus: ## Drive the embedded engine with the published iii-sdk clients of npm and PyPI.
	@$(PROGRESS) "compiling the suite" go build -o bin/conformance-bus ./hack/conformance/bus
	@bin/conformance-bus

.PHONY: conformance-sandbox
conformance-sandbox: ## Drive the sandbox daemon with the published iii-sdk client, and try to escape from guests (BACKEND=namespaces|qemu, SHORT=1).
	@$(PROGRESS) "compiling the suite" env CGO_ENABLED=0 go build -trimpath -o bin/conformance-sandbox ./hack/conformance/sandbox
	@$(QEMU_ROOT) BACKEND=$(BACKEND) SHORT=$(SHORT) bin/conformance-sandbox

.PHONY: conformance-runner
conformance-runner: controlplane build ## Drive the whole stack with the published iii-sdk client through every row of the sandbox-code-runner contract.
	@$(PROGRESS) "compiling the suite" go build -o bin/conformance-runner ./hack/conformance/runner
	@bin/conformance-runner

.PHONY: bench-sandbox
bench-sandbox: ## Measure sandboxes beside bwrap; table and out/bench-sandbox.json (BACKEND=namespaces|qemu).
	@$(PROGRESS) "compiling the benchmark" env CGO_ENABLED=0 go build -trimpath -o bin/bench-sandbox ./hack/benchsandbox
	@$(QEMU_ROOT) BACKEND=$(BACKEND) bin/bench-sandbox

##@ Build

.PHONY: build
build: guest ## Build bin/manager (the operator) and bin/sandbox-daemon.
	@$(PROGRESS) "compiling the operator" env CGO_ENABLED=0 go build -trimpath -o bin/manager .
	@$(PROGRESS) "compiling the sandbox daemon" env CGO_ENABLED=0 go build -trimpath -o bin/sandbox-daemon ./sandbox/daemon/cmd

.PHONY: guest
guest: ## Build what is planted into sandboxes, and the Python SDK of the python image.
	@guest/build.sh
	@mkdir -p bin
	@ln -sfn "$$(guest/sdk/build.sh python | tail -n 1)" bin/python-sdk

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver, kube-controller-manager and kubectl into bin/k8s.
	@hack/controlplane/build.sh

.PHONY: flux
flux: ## Build Flux's source-controller and kustomize-controller into bin/flux.
	@hack/gitops/build.sh

.PHONY: tools
tools: ## Build the code generators into bin/tools.
	@hack/tools/build.sh controller-gen crd-ref-docs ginkgo

.PHONY: generate
generate: tools ## Regenerate the deep copy functions.
	@$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: tools ## Regenerate the CRDs and the operator's role.
	@$(CONTROLLER_GEN) crd:maxDescLen=1024 paths=./api/... output:crd:artifacts:config=config/crd/bases
	@$(CONTROLLER_GEN) rbac:roleName=manager-role paths=./controllers/... output:rbac:artifacts:config=config/rbac

.PHONY: docs
docs: tools ## Regenerate the API reference.
	@bin/tools/crd-ref-docs --log-level=ERROR --source-path=api/v1alpha1 --config=hack/crd-ref-docs.yaml --templates-dir=hack/crd-ref-docs \
	  --renderer=markdown --output-path=docs/api.md

.PHONY: clean
clean: ## Remove what was built here; the cache of other clones stays.
	rm -rf bin out .dev
	find guest/dist guest/agent/generated -type f ! -name .gitkeep -delete

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*##"} /^[a-z0-9-]+:.*##/ {printf "  %-14s %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)
