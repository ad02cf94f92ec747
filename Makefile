# Targets of Weft; `make help` lists them. Tools are pinned here and nowhere else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The flags are always the same, so that every target shares one build cache: the embedded
# server alone takes minutes to compile. Flags of the caller's must not change that.
export GOFLAGS := -buildvcs=false

GOLANGCI_LINT := GOFLAGS= go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
WORKFLOWCHECK := GOFLAGS= go run go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0
GOVULNCHECK := GOFLAGS= go run golang.org/x/vuln/cmd/govulncheck@v1.9.0
# The images are built with it.
GO_LICENSES := GOFLAGS= go run $(shell sed -n 's/^ARG GO_LICENSES=//p' docker/Dockerfile)

# All modules of the repository, the engine's first.
MODULES := . worker/devserver tests/examples/embed docker/check tests/bench
# SPDX ids of the licences that dependencies may have. Images have no code under MPL-2.0.
LICENSES := Apache-2.0,BSD-2-Clause,BSD-2-Clause-FreeBSD,BSD-3-Clause,ISC,MIT,MPL-2.0
# What is not checked: this project, and modules without a licence file that is recognized. mathutil has BSD-3-Clause, the
# repository of go-statsd-client MIT; nexus-proto-annotations, which Temporal's API needs, has none.
LICENSES_KNOWN := weft,example.com/picnic,modernc.org/mathutil,github.com/cactus/go-statsd-client/statsd,github.com/nexus-rpc/nexus-proto-annotations

DEVSERVER := bin/weft-devserver
DB := .dev/temporal.db
FUZZTIME := 10s
CHAOS ?= full
IMAGE_VERSION = $(or $(VERSION),$(shell git describe --tags --always --dirty))
# The packages with end-to-end tests, those that take longest first.
END_TO_END := ./tests/e2e ./tests/services ./tests/chaos ./tests/dialects ./starter ./tests/browser ./worker ./tests/replay ./tests/conformance
CLUSTER_TESTS := ^TestEndToEnd(Graphs|ColdWorkers|Cluster(Faults|StoreFull|LosesNodes))$$
EXAMPLE := tests/examples/continuum/data-analyzer

# The packages with goroutines of their own, or that run others'. Workflow code has none, and adapters neither; nor have the two that
# are left out, which take longest with the race detector.
SEQUENTIAL := weft/activities/contract|weft/starter/input
CONCURRENT = $(shell go list ./activities/... ./starter/... ./worker/... | grep -vxE '$(SEQUENTIAL)')
# With more memory, servers, workers and the linker take a tenth less of the processors.
LESS_GC := GOGC=400
# Tests that wait for a server or a clock take no processor: more of them run at a time than there are.
PARALLEL := -p 4 -parallel 8

# The packages with tests that compare files with what they generate, and rewrite them if UPDATE is set.
GOLDEN = $(shell grep -rl '^func TestGolden' --include='*_test.go' activities specadapter starter worker tests/dialects | xargs -n1 dirname | sort -u | sed 's|^|./|')

# Unless told otherwise, each process with the detector sleeps a second before it ends; tests run the command line hundreds of times.
GORACE := atexit_sleep_ms=10

# Tests see neither keys nor settings of whoever runs them.
CLEAN_ENV := env $(foreach v,$(shell env | sed -nE 's/^([A-Z0-9_]*_API_KEY(_FILE)?|OLLAMA_HOST|OLLAMA_BASE_URL|HF_TOKEN|AWS_[A-Z0-9_]*|OCI_[A-Z0-9_]*|UPDATE|WEFT_[A-Z0-9_]*|TEMPORAL_[A-Z0-9_]*)=.*/\1/p'),-u $(v))

# A cluster on loopback, such as that of make cluster, is what e2e, chaos and conformance are pointed
# at by TEMPORAL_ADDRESS. No other: they leave runs behind, and whoever has exported the address of a
# real cluster did not mean these tests.
ON_CLUSTER = $(if $(filter 127.%,$(TEMPORAL_ADDRESS)),TEMPORAL_ADDRESS=$(TEMPORAL_ADDRESS),$(if $(TEMPORAL_ADDRESS),$(info TEMPORAL_ADDRESS=$(TEMPORAL_ADDRESS) is not on 127.0.0.0/8: the tests use an embedded server)))

# The programs that end-to-end tests start.
PROGRAMS := WEFT_DEVSERVER=$(CURDIR)/$(DEVSERVER) WEFT_WORKER=$(CURDIR)/bin/worker

.PHONY: help build devserver npm test race lint check audit e2e sizes replay golden record picture chaos yields demo dev bench conformance mcp-conformance editors providers fuzz chart images cluster cluster-test cluster-programs bench-program bench-cluster

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

build: devserver ## Build bin/worker, bin/starter, bin/weft-devserver and the tool servers of examples, bin/mail and bin/weather
	@go build -o bin/ ./worker ./starter ./tests/examples/mail ./tests/examples/weather

devserver:
	@test -x $(DEVSERVER) || echo "Building the embedded Temporal server. The first time this takes some minutes." >&2
	@cd worker/devserver && go build -ldflags '-s -w' -o ../../$(DEVSERVER) .

test: ## Run the tests that need no server (unit, golden, command line, replay; RACE=-race: with the race detector for packages with goroutines)
	$(CLEAN_ENV) $(LESS_GC) GORACE=$(GORACE) go test -timeout 30m $(PARALLEL) $(RACE) $(CONCURRENT)
	$(CLEAN_ENV) $(LESS_GC) go test -timeout 30m $(PARALLEL) $$(go list ./... | grep -vxFf <(printf '%s\n' $(CONCURRENT)))
	cd tests/bench && $(CLEAN_ENV) go test ./...

race: ## Run the tests that need no server, with the race detector for all packages
	$(CLEAN_ENV) GORACE=$(GORACE) go test -timeout 60m -race ./...

lint: ## Check style, import directions and determinism
	$(GOLANGCI_LINT) run --allow-parallel-runners ./...
	$(WORKFLOWCHECK) -config .workflowcheck.yml ./workflows/...
	@for m in $(filter-out .,$(MODULES)); do echo "go vet $$m"; (cd $$m && go vet ./...); done

check: lint test ## Run everything that a change must pass without a server
	@for m in $(MODULES); do echo "go mod tidy $$m"; (cd $$m && go mod tidy -diff); done

audit: ## Check all modules for known vulnerabilities, and for licences that are unknown or not allowed
	@failed=0; for m in $(MODULES); do echo "audit $$m" >&2; cd $(CURDIR)/$$m; \
	  out=$$($(GO_LICENSES) check --include_tests --ignore $(LICENSES_KNOWN) --allowed_licenses $(LICENSES) ./... 2>&1) \
	    || { failed=1; grep '^Not allowed license' <<< "$$out" >&2 || echo "$$out" >&2; }; \
	  if out=$$($(GOVULNCHECK) ./... 2>&1); then true; \
	  elif grep -q 'fetching vulnerabilities' <<< "$$out"; then echo "audit: $$m is not searched for vulnerabilities: $$out" >&2; \
	  else failed=1; echo "$$out" >&2; fi; \
	done; exit $$failed

# A package that cannot be installed is skipped by what runs it.
npm:
	@cd tests/npm && cmp -s package-lock.json node_modules/package-lock.json || \
	  { npm ci --silent --no-audit --no-fund --fetch-retries 1 && cp package-lock.json node_modules; } || \
	  echo "npm cannot be reached: MCP servers and tools from there are not run" >&2

# The tests of the embedded server, a module of its own, wait most of the time.
e2e: build npm ## Run the end-to-end tests on the embedded server, or on the loopback cluster at TEMPORAL_ADDRESS
	failed=0; (cd worker/devserver && $(CLEAN_ENV) go test -count=1 ./...) & \
	$(CLEAN_ENV) $(LESS_GC) $(PROGRAMS) $(ON_CLUSTER) go test -count=1 -timeout 40m -p 3 -parallel 3 -run EndToEnd $(END_TO_END) || failed=1; \
	wait $$! && exit $$failed

sizes: build ## Run the end-to-end tests of large runs in full size (200 branches, a map of 10,000, 9,000 signals, 500 model calls, 1,000 nodes on the page)
	$(CLEAN_ENV) $(PROGRAMS) $(ON_CLUSTER) WEFT_SIZES=1 go test -count=1 -timeout 40m -v -run '^TestEndToEnd(Sizes|HistoryBound|LargeBranchResults|LargeToolLists|ConcurrentAnswers|Page)$$' ./tests/e2e ./tests/browser | grep -v '^=== '

replay: ## Replay the recorded histories
	$(CLEAN_ENV) go test -count=1 -run TestReplay ./tests/replay

golden: ## Rewrite golden files; review the diff before committing
	$(CLEAN_ENV) UPDATE=1 go test -count=1 $(PARALLEL) -run '^TestGolden' $(GOLDEN)

record: build ## Record the missing histories for replay
	$(CLEAN_ENV) $(PROGRAMS) WEFT_RECORD=1 go test -count=1 -run EndToEndRecord ./tests/replay ./tests/dialects ./tests/e2e ./tests/services

picture: build ## Regenerate README's pictures of the Web UI and of the page, with a headless browser
	$(CLEAN_ENV) $(PROGRAMS) WEFT_PICTURES=$(CURDIR)/tests/browser go test -count=1 -v -run 'EndToEnd(Page|WebUI)$$' ./tests/browser

chaos: build npm ## Kill worker and server at every step of the sample flows, and servers of tools (CHAOS=short: at some; TEMPORAL_ADDRESS as for e2e)
	$(CLEAN_ENV) $(PROGRAMS) $(ON_CLUSTER) CHAOS='$(CHAOS:short=)' go test -count=1 -timeout 180m -v -run '^TestEndToEnd(Chaos|MCPServers)$$' ./tests/chaos $(if $(filter full,$(CHAOS)),./tests/services) \
	  | grep --line-buffered -v '^=== RUN'

yields: build ## Make the examples and other flows continue as new at every await (YIELDS=continuum/triage: only this flow; continuum/triage/12: at 12 events)
	$(CLEAN_ENV) $(PROGRAMS) $(ON_CLUSTER) YIELDS='$(or $(YIELDS),all)' go test -count=1 -timeout 60m -v -run '^TestEndToEnd(Yields$(if $(YIELDS),,|ConversationsAgree))$$' ./tests/dialects | grep -vE '^=== |--- PASS'

demo: build ## Run an example flow on an embedded Temporal server with its Web UI
	@$(DEVSERVER) -db $(DB) -demo $(EXAMPLE).json -demo-input $(EXAMPLE).input.txt -demo-script $(EXAMPLE).script

dev: build ## Run Temporal (7233), Web UI (8233) and a worker until Ctrl-C; ALLOW_COMMANDS=1 allows flows to start commands
	@exec $(DEVSERVER) -db $(DB) $(if $(ALLOW_COMMANDS),-allow-commands)

bench-program:
	@cd tests/bench && go build -o ../../bin/bench .

bench: build bench-program ## Compare flows with hand-written workflows (BENCH_QUICK=1: a shorter run)
	$(CLEAN_ENV) $(PROGRAMS) WEFT_SIZES=1 go test -count=1 -v -run '^TestEndToEndHistoryBound$$' ./tests/e2e | grep -E 'model calls|FAIL|ok'
	$(CLEAN_ENV) $(PROGRAMS) bin/bench

conformance: ## Run the conformance suite for every model provider, and print its table; run Agent Spec's own suite and, with TEMPORAL_ADDRESS, the graphs on that server
	@$(CLEAN_ENV) go test -count=1 -v -run '^TestAgentSpecSuite$$' ./tests/conformance | grep -E '^ *agentspec_test|SKIP|FAIL|^ok' | sed 's/^ *[a-z_]*.go:[0-9]*: //'
	@$(CLEAN_ENV) CONFORMANCE=1 go test -count=1 -v -run '^TestGoldenConformance$$' ./activities/llm \
	  | grep -E '^(\||FAIL|ok)|^ *(--- FAIL|[a-z_]+_test\.go)'
	@test -z "$(ON_CLUSTER)" || $(CLEAN_ENV) $(ON_CLUSTER) go test -count=1 -v -run '^TestEndToEndGraphs$$' ./tests/conformance | grep -E '^ *---|^FAIL|^ok'

mcp-conformance: build npm ## Run MCP's conformance suite for clients with starter -dev (VERSIONS=2026-07-28 SCENARIO=tools_call: one scenario)
	@$(CLEAN_ENV) tests/npm/conformance.sh

editors: build npm ## Check the published schemas with yaml-language-server, starter lsp with a language client, and the description of the HTTP API with linters
	@cd tests/npm && { test ! -x node_modules/node/bin/node || { node_modules/node/bin/node schema.mjs && node_modules/node/bin/node lsp.mjs $(CURDIR)/bin/starter && node_modules/node/bin/node openapi.mjs; }; }

providers: ## Run an example with every model provider and kind of tool: on fake servers, and on the real services whose keys are set (MODELS="vllm/NAME ..." adds models)
	@$(CLEAN_ENV) go test -count=1 -v -run '^TestExampleOfEach' ./tests/dialects | grep -v '^=== '
	@REAL=1 go test -count=1 -v -timeout 60m -run '^TestRealProviders$$' ./tests/dialects | grep -v '^=== '

chart: ## Render, lint and decode the chart, and check the Compose file
	cd docker/check && $(CLEAN_ENV) go test -count=1 ./...

images: ## Build the images with buildah, as root, and run their programs
	@VERSION=$(IMAGE_VERSION) docker/images.sh
	cd docker/check && $(CLEAN_ENV) WEFT_IMAGES=$(IMAGE_VERSION) WEFT_DEVSERVER=$(wildcard $(CURDIR)/$(DEVSERVER)) go test -count=1 -v -run Images ./...

cluster-programs: build
	@cd worker/devserver && go build -o ../../bin/temporal-server go.temporal.io/server/cmd/server
	@cd worker/devserver && go build -o ../../bin/temporal-sql-tool go.temporal.io/server/cmd/tools/sql

cluster: cluster-programs ## Run PostgreSQL, two Temporal servers and two workers on loopback until Ctrl-C
	@exec docker/cluster.sh

cluster-test: cluster-programs ## Run end-to-end tests on such a cluster, then inject faults under 1,000 runs (BENCH_QUICK=1: 100; CLUSTER_RUNS=1000: each part under 1,000)
	$(CLEAN_ENV) WEFT_WORKER=$(CURDIR)/bin/worker docker/cluster.sh go test -count=1 -timeout 150m -v -p 1 -run '$(CLUSTER_TESTS)' ./tests/conformance ./tests/chaos ./tests/e2e | grep -v '^=== '

bench-cluster: cluster-programs bench-program ## Compare flows with hand-written workflows on such a cluster (BENCH_QUICK=1: a shorter run)
	$(CLEAN_ENV) docker/cluster.sh bin/bench

fuzz: ## Run every fuzz test for FUZZTIME (10s)
	@for p in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(CLEAN_ENV) go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p; \
	  done; \
	done
