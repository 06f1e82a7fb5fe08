# Everything a clone needs is Python 3.11 or newer and make: `make demo`, `make test`, `make help`.
# The first target of each kind installs into $(VENV); later runs install nothing until pyproject.toml changes.

PYTHON ?= python3
VENV ?= .venv
OUT ?= out
PYTEST_ARGS ?=
BENCH ?= # sections of docs/benchmarks.md, such as speed or memory; all of them if empty

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet --quiet # errors only
PYTEST := $(BIN)/python -m pytest
GATES := lint format-check types layers docs-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow fuzz bench gates $(GATES) format docs clean distclean
.DELETE_ON_ERROR:

help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

# 40 GiB of device memory and 160 GiB of host memory hold 0.5 % and 2.2 % of what the trace touches.
demo: $(VENV)/.stamp-tuner ## tune on the bundled trace: writes policy.yaml and report.html
	@$(BIN)/kv-autotune tune --trace sample:conversation --model llama-3.1-8b --hardware h100-sxm \
	    --device-gib 40 --host-gib 160 --out $(OUT)

test: $(VENV)/.stamp-dev ## all tests but the long ones; says what was left out
	$(PYTEST) $(PYTEST_ARGS)

test-slow: $(VENV)/.stamp-dev ## tests that take minutes each
	$(PYTEST) -m slow $(PYTEST_ARGS) || test $$? -eq 5 # there may be none

fuzz: $(VENV)/.stamp-dev ## long random search for faults
	$(PYTEST) -m fuzz --hypothesis-profile=fuzz $(PYTEST_ARGS)

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
	find autotune policies configs tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the installation too
	rm -rf $(VENV)

# The test tools include what the demo needs, so either stamp satisfies the demo.
$(VENV)/.stamp-dev: pyproject.toml | $(BIN)/python
	@echo "installing kv-autotune[tuner,dev] into $(VENV)"
	@$(PIP) -e '.[tuner,dev]'
	@touch $(VENV)/.stamp-tuner $@

$(VENV)/.stamp-tuner: pyproject.toml | $(BIN)/python
	@echo "installing kv-autotune[tuner] into $(VENV)"
	@$(PIP) -e '.[tuner]'
	@touch $@

# Where Python comes without ensurepip (Debian without python3-venv), its own pip fills the new environment.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "kv-autotune needs Python 3.11 or newer; got $$($(PYTHON) --version 2>&1) from '$(PYTHON)';" \
	         "run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	    $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $@ install --quiet pip; } || { \
	    echo "no virtual environment could be made; on Debian: apt-get install python3-venv" >&2; exit 1; }
