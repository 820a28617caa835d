# One verb for each thing a developer or a user does; `.ci/run` calls the same ones.
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup compiler format check test test-unit test-integration test-fast test-slow cluster outages packagers package nspawn lab lab-brief vagrant bench hardware-gpu demo proto lock docs deb clean
.DEFAULT_GOAL := help
# Verbs share one kernel and one clock: one after the other, whatever -j says.
.NOTPARALLEL:

help: ## list the verbs
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

setup: ## install what berth needs here: Debian packages, a virtual environment, locked wheels
	@tools/setup

format: setup ## put every file into the one form
	$(BIN)/ruff format agent tests tools
	$(BIN)/ruff check --fix-only agent tests tools

check: setup ## lint, types, layers, spelling, generated files
	@tools/check

compiler: setup
	@tools/compiler

# A unit test touches nothing but its own folder, so these share the two cores, and slow ones wait a
# lot. The rest could as well, but gain nothing by it: 153 s in two processes, 143 s in one.
test-unit: compiler ## the tests of pure parts and of single libraries
	$(BIN)/pytest -n 2 tests/unit -m 'not slow'

test-integration: compiler ## those on this machine's kernel that need neither a cluster nor minutes
	$(BIN)/pytest tests/integration -m 'not cluster and not slow'

test-fast: test-unit test-integration ## both of these

test-slow: compiler ## those that need minutes, but no cluster
	$(BIN)/pytest -n 2 --dist loadfile tests/unit tests/integration -m 'slow and not cluster'

cluster: compiler ## the tests on a real control plane, real kubelets and containerds
	$(BIN)/pytest tests/cluster tests/integration -m 'cluster and not outage'

outages: setup ## the cluster tests that end parts of a node again and again
	$(BIN)/pytest tests/cluster -m outage

package: setup packagers ## the Debian package: built twice, lintian, what is in it, on every Python here
	$(BIN)/pytest tests/package

# Mostly they wait for systemd, so each release has a process of its own.
nspawn: deb ## the package and the service under a real systemd; RELEASES="12 13 testing" for all
	BERTH_DEB=$$(ls -t dist/berthd_*_$$(dpkg --print-architecture).deb | head -n 1) \
	  $(BIN)/pytest -n 2 --dist loadgroup tests/nspawn

lab: setup packagers ## the packaged daemon on an emulated machine with SR-IOV, an IOMMU and two NUMA nodes
	$(BIN)/pytest tests/lab

lab-brief: setup packagers ## those of them that CI runs
	$(BIN)/pytest tests/lab -m 'not slow'

vagrant: setup packagers ## a node in a VM by `vagrant up`, emulated: a few minutes of a quiet machine
	$(BIN)/pytest tests/vagrant

test: setup test-fast test-slow package nspawn cluster outages ## every test

bench: setup ## the figures, as a table and as JSON
	$(BIN)/pytest tests/bench -m bench

hardware-gpu: setup ## what only a real GPU can show; REPORT=name keeps it under tests/hardware/reports
	REPORT=$(REPORT) $(BIN)/pytest tests/hardware -m gpu

demo: setup ## pods get a NIC, a device node and a GPU, without Kubernetes: about a minute
	$(BIN)/berth rehearse

proto: setup ## generate agent/berth/pb from proto/
	@$(BIN)/python tools/proto.py

docs: setup ## write the generated pages of docs/reference
	@for page in tools/*reference.py; do $(BIN)/python -m tools.$$(basename $$page .py) || exit 1; done

lock: ## resolve requirements/*.lock anew (needs uv)
	uv pip compile -q --python-version 3.10 --generate-hashes --no-emit-index-url \
	  --custom-compile-command "make lock" pyproject.toml -o requirements/runtime.lock
	uv pip compile -q --universal --python-version 3.10 --generate-hashes --no-emit-index-url --extra dev \
	  --custom-compile-command "make lock" -c requirements/runtime.lock pyproject.toml -o requirements/dev.lock

packagers:
	@tools/packagers

deb: setup packagers ## build the Debian package into dist/; ARCHITECTURE=arm64 for the other one
	@tools/deb

clean: ## remove what setup and the tools made in the tree
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
