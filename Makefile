# RQ: reliable job queues inside Redis and Valkey. `make` alone lists what there is.
#
# RQ_SERVER: the server for `run`, a name of `scripts/servers list` or a path. RQ_CACHE: where
# fetched servers are kept (by default ~/.cache/rq).
.DEFAULT_GOAL := help
.PHONY: help build top run install uninstall archive deb test clients lab matrix chaos dashboards fuzz memcheck bench depth lint clean

# bindgen needs a libclang.
CARGO = eval "$$(scripts/libclang)" && cargo

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

build: ## the module, target/release/librq.so: one file for all servers
	@$(CARGO) build --release --locked

top: ## rq-top, target/top/rq-top: a live view of a server's queues
	@$(CARGO) build --profile top --locked --package rq-top

install: ## what `make build top` has built, to $DESTDIR$PREFIX (/usr/local); see docs/INSTALL.md
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' scripts/package install

uninstall: ## removes that again
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' scripts/package uninstall

archive: build top ## a release archive for this architecture, in target/dist
	@scripts/package archive

deb: build top ## a Debian package, in target/dist
	@scripts/package deb

run: build ## a server with RQ and workers at work on real files; FOLDER=... for your own
	@scripts/demo $(FOLDER)

test: ## all that CI runs
	@scripts/test

clients: build ## real clients, and the workers of examples/, on RQ_SERVER
	@$(CARGO) build --release --locked --examples
	@tests/clients/run.py
	@tests/examples/run.py

matrix: ## the tests on real servers, on all seven
	@scripts/test $$(scripts/servers list | cut -d ' ' -f 1)

chaos: build ## servers killed, turned round and stormed for CHAOS_SECONDS each, judged by a ledger
	@scripts/chaos

memcheck: build ## server tests under valgrind, on valkey-9.1; NAMES="blocking:: xtrim::" for some of them
	@scripts/valgrind $(NAMES)

lab: build ## lists, streams and RQ when things go wrong, side by side; LAB="b e redis-7.0"
	@scripts/lab $(LAB)

dashboards: build ## the exporter, the alerts and the dashboard with a real Prometheus, from Debian's packages
	@scripts/check-dashboards

fuzz: ## random arguments, ops and snapshots, each for RQ_FUZZ_SECONDS (600), other ones every time
	@RQ_FUZZ_SECONDS=$${RQ_FUZZ_SECONDS:-600} RQ_FUZZ_FROM=$$(date +%s)000000 \
		cargo test --package rq-core --locked --test fuzz -- --nocapture

bench: ## figures beside lists, streams and BullMQ, on three servers or RQ_SERVER
	@$(CARGO) build --release --locked
	@cargo bench --locked --quiet --bench main

depth: ## each verb, expiry, removal, files and forks with RQ_DEPTH_JOBS (5,000,000) jobs
	@$(CARGO) build --release --locked
	@cargo bench --locked --quiet --bench main -- depth

lint: ## clippy, warnings being errors
	@$(CARGO) clippy --release --workspace --all-targets --locked -- -D warnings

clean: ## removes what was built; fetched servers stay in the cache
	@cargo clean
