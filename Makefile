# make demo         the whole job on this machine: publish two apps, crawl them, query the index
# make test         every test; sets up what it needs as root on Debian or Ubuntu
# make conformance  the official MCP suite against the publisher, both revisions, and against the host's client
# make check        format, lint, import table, rule book, other systems, then the tests
# make fuzz         each fuzz target for FUZZTIME
# make bench        benchmarks with a peer or a physical limit in the same run
# make rules        the rule book and the tests of each rule

GO        ?= go
FUZZTIME  ?= 30s
TESTFLAGS ?=
TOOL       = $(GO) tool -modfile=tools/go.mod

.PHONY: demo test conformance check format lint cross rules fuzz bench

# Built first and run by itself: "go run" would call Ctrl-C a failure.
demo:
	@echo "building; the first time this takes some minutes"
	@dir=$$(mktemp -d) && trap : INT TERM && $(GO) build -o "$$dir/demo" ./internal/demo && \
	"$$dir/demo" $(if $(filter 1,$(CHECK)),-check); status=$$?; rm -rf "$$dir"; exit $$status

test:
	@sh scripts/setup
	@GO="$(GO)" sh scripts/test $(TESTFLAGS) ./...

# The last lines are what passed of what each revision requires.
conformance:
	@sh scripts/setup npm
	@$(GO) run ./internal/conformance

check: format lint cross
	$(GO) vet ./...
	$(GO) test ./internal/archtest/...
	$(GO) run ./internal/archtest/rulebook -strict >/dev/null
	$(MAKE) test

format:
	@out=$$($(TOOL) golangci-lint fmt --diff ./... 2>&1); \
	if [ -n "$$out" ]; then echo "$$out"; echo "not formatted: run '$(TOOL) golangci-lint fmt ./...'"; exit 1; fi

lint:
	$(TOOL) golangci-lint run ./...

# The programs build everywhere, whatever machine they are written on.
cross:
	CGO_ENABLED=0 GOOS=darwin $(GO) build ./...
	CGO_ENABLED=0 GOOS=windows $(GO) build ./...

rules:
	@$(GO) run ./internal/archtest/rulebook

fuzz:
	@sh scripts/fuzz $(FUZZTIME)

bench:
	@$(GO) run ./internal/bench
