# Every target is a few plain commands; `make` alone says what there is.

SHELL := /bin/bash
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help setup build demo test verify-fast bench bench-loop bench-peers chaos conformance liars model fuzz docs lint clean

help: ## Say what there is
	@echo "Surety: a goal becomes a plan, a plan becomes evidence, evidence becomes a verdict."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: ## Find what is needed, install what is missing, name what it cannot install
	@scripts/setup.sh

build: setup ## Build every binary (development profile)
	cargo build --locked --workspace --bins

demo: setup ## See a repository repaired and proven, and a false claim refused
	@scripts/demo.sh

test: setup ## Everything that CI checks
	@scripts/test.sh all

verify-fast: ## Format, lints, purity and the domain's own tests: under three minutes
	@scripts/test.sh fast

lint: ## Format and lints of Rust, protobuf and shell
	@scripts/test.sh lint

docs: ## The API documentation, with warnings as errors
	@scripts/test.sh docs

conformance: setup ## The contract's cases, one by one
	@scripts/test.sh conformance

liars: setup ## False claims and honest runs, all of them: each is refused or accepted as it should be
	@SURETY_LIARS=all scripts/test.sh liars

model: setup ## The lease protocol as a model, in its large worlds: some minutes
	cargo test --locked -p surety-lease-model --lib -- --include-ignored --nocapture every_

fuzz: setup ## Feed every reader arbitrary bytes, a minute each, and the property tests many cases
	@scripts/fuzz.sh $${FUZZ_SECONDS:-60}
	PROPTEST_CASES=$${PROPTEST_CASES:-100000} cargo test --locked --release -p surety-common --no-default-features --lib

chaos: setup ## Break everything for minutes and audit what is left; CHAOS_SECONDS=3600 SURETY_CHAOS_SEED=7
	cargo build --locked --workspace --bins
	SURETY_CHAOS_SECONDS=$${CHAOS_SECONDS:-180} $(TARGET_DIR)/debug/surety dev-postgres -- \
	  cargo test --locked -p surety-e2e --test crash -- --nocapture --test-threads 2

bench: setup ## Measure readers, gate and engine as they are shipped; BENCH="throughput --runs 10000"
ifeq ($(strip $(BENCH)),)
	cargo bench --locked --workspace --bench decisions --bench plans --bench verdicts --bench snapshots --bench views --bench commands --bench verify
endif
	cargo build --locked --profile dist --workspace --bins
	cargo bench --locked --profile dist --workspace --bench engine -- $(BENCH)

bench-loop: setup ## Play small repository tasks under models of graded quality; BENCH="--tasks rust --grades lying,looping"
	cargo build --locked --profile dist --workspace --bins
	cargo bench --locked --profile dist --workspace --bench loop -- $(BENCH)

bench-peers: setup ## Published engines (npm, PyPI, the Rust registry) and ours, turn about; PEERS="dbos restate --runs 200"
	cargo build --locked --profile dist --workspace --bins
	cargo bench --locked --profile dist --workspace --bench engine --no-run
	$(TARGET_DIR)/dist/surety dev-postgres --durable \
	  --setting shared_buffers=512MB --setting max_connections=200 -- \
	  python3 tests/benches/peers/compare.py $(PEERS)

clean: ## Remove what was built
	cargo clean
	rm -rf tools/buf/node_modules clients/typescript/node_modules clients/typescript/dist clients/typescript/src/generated tests/benches/peers/*/node_modules fuzz/target examples/*/project/target
