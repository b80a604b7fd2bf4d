# demo, test, lint and bench each set up what they need in $(VENV) first.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= auto
# Goal for the CPU seconds that `make test`, or the tests of a family, take on an idle machine:
# seven minutes of two cores.
PLANNED_S ?= 840
# One exact version, so that everybody tests the same and a CPU build of it that pip knows
# of (2.13.0+cpu, e.g. through PIP_FIND_LINKS) is taken before the far larger CUDA build;
# a plain `torch` would take the newest CUDA build instead. Used only where torch is missing.
TORCH ?= torch==2.13.0

# Without compiled files, each of the programs that the tests start would compile mothtrap anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
READY := $(VENV)/.mothtrap-installed
WITH_TORCH := $(VENV)/.torch-installed
FOR_DEMO := $(VENV)/.demo-installed

PEERS := build/peers
KEPT := build/bench/capture.jsonl

# Frameworks that are tested in an environment of their own: a file requirements/NAME.txt is all
# that `make test-NAME` and `make smoke-NAME` need. Its line `# tests:` is what pytest is given.
# Two processes, since these frameworks compile with threads of their own.
# uv does not read pip's configuration, where a CPU build of torch may be named.
FAMILIES := $(patsubst requirements/%.txt,%,$(wildcard requirements/*.txt))
UV := $(shell command -v uv 2>/dev/null)

.PHONY: help demo test test-full lint bench peers faults venv docs site families wheel try-wheel
.PHONY: $(FAMILIES:%=test-%) $(FAMILIES:%=smoke-%)
.PRECIOUS: .venv-%/.installed

help:
	@echo "make demo    train a small network with a mistake, see it named, then repaired"
	@echo "make test    run the tests (JOBS=2 to choose the number of processes)"
	@echo "make test-full"
	@echo "             run them all, also those that take long"
	@echo "make test-NAME, make smoke-NAME"
	@echo "             the tests of $(FAMILIES), or the quickest of them, in .venv-NAME"
	@echo "make lint    ruff, codespell and mypy"
	@echo "make bench   measure what capturing, storing and reading cost, and which faults are named"
	@echo "make peers   set up the tools that make bench measures capture beside, in $(PEERS)"
	@echo "make faults  the last of these alone"
	@echo "make docs    write docs/rules.md and docs/rules/ from the rules' docstrings"
	@echo "make wheel   build a wheel for this platform, and one without C extensions, in dist"
	@echo "make site    build the documentation in build/site"

demo: $(FOR_DEMO)
	@$(BIN)/mothtrap demo

test: $(WITH_TORCH)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cpu-times --cpu-planned $(PLANNED_S) $(PYTEST)

test-full:
	HARNESS=full $(MAKE) test PLANNED_S=0

$(FAMILIES:%=test-%): test-%: .venv-%/.installed
	.venv-$*/bin/python -m pytest -n 2 --dist worksteal --cpu-times --cpu-planned $(PLANNED_S) $$(sed -n 's/^# tests: //p' requirements/$*.txt)

$(FAMILIES:%=smoke-%): smoke-%: .venv-%/.installed
	.venv-$*/bin/python -m pytest -m smoke $$(sed -n 's/^# tests: //p' requirements/$*.txt)

families:
	@echo $(FAMILIES)

.venv-%/.installed: requirements/%.txt pyproject.toml
	@echo "installing $< into .venv-$*; this can take minutes"
	@rm -rf .venv-$*
ifneq ($(UV),)
	@$(UV) venv --quiet --python $(PYTHON) .venv-$*
	@UV_FIND_LINKS="$${UV_FIND_LINKS:-$${PIP_FIND_LINKS:-$$($(PYTHON) -m pip config get global.find-links 2>/dev/null)}}" \
	  $(UV) pip install --quiet --compile-bytecode --python .venv-$*/bin/python -r $< hypothesis pytest pytest-timeout pytest-xdist --editable .
else
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet -r $< hypothesis pytest pytest-timeout pytest-xdist --editable .
endif
	@touch $@

# mypy reads torch's types, so linting needs torch too.
lint: $(WITH_TORCH)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m codespell_lib
	$(BIN)/python -m mypy

# What capture costs goes into the page; the lines of an earlier version of the code do not.
bench: $(WITH_TORCH)
	rm -f $(KEPT)
	$(BIN)/python bench/capture.py --peers $(PEERS) --keep $(KEPT)
	$(BIN)/python bench/capture.py --p99 --keep $(KEPT)
	$(BIN)/python bench/capture.py --long 10000 --model mlp --keep $(KEPT) --write docs/benchmarks.md
	$(BIN)/python bench/store.py
	$(BIN)/python bench/reading.py
	$(MAKE) faults

# Each in an environment of its own; torch comes first, so that no CUDA does.
peers: $(patsubst bench/peers/%.txt,$(PEERS)/%/.installed,$(wildcard bench/peers/*.txt))

$(PEERS)/%/.installed: bench/peers/%.txt | $(BIN)/python
	@echo "installing $* and $(TORCH) into $(PEERS)/$*; this can take minutes"
	@$(BIN)/python -m venv $(PEERS)/$*
	@$(PEERS)/$*/bin/python -m pip install --quiet '$(TORCH)'
	@$(PEERS)/$*/bin/python -m pip install --quiet -r $<
	@touch $@

# A target that is missed fails only when all three are measured.
faults: $(WITH_TORCH)
	$(BIN)/python bench/faults.py; named=$$?; \
	$(BIN)/python bench/faults.py --cases bench/faultbench/more; more=$$?; \
	$(BIN)/python bench/faults.py --healthy && exit $$((named + more))

docs: $(READY)
	$(BIN)/python docs/make_rules.py

# Strict: a warning is an error.
site: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	@echo "built build/site/index.html"

# The second one fits every platform, and needs no compiler.
wheel: $(READY)
	@rm -rf dist/*.whl build/lib* build/bdist*
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@MOTHTRAP_PURE=1 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

try-wheel: wheel $(WITH_TORCH)
	@for wheel in dist/*.whl; do $(BIN)/python scripts/try_wheel.py $$wheel || exit 1; done

venv: $(WITH_TORCH)

# Debian's python3 comes without ensurepip, which `python3 -m venv` needs; virtualenv does not.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is no Python 3.11 or later; name one: make PYTHON=python3.12" >&2; exit 2; }
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
	  echo "making a virtual environment in $(VENV)"; \
	  $(PYTHON) -m venv $(VENV); \
	else \
	  $(PYTHON) -c 'import virtualenv' 2>/dev/null || { \
	    $(PYTHON) -m pip --version >/dev/null 2>&1 || { \
	      echo "error: $(PYTHON) has neither ensurepip nor pip, so no virtual environment can be made; on Debian: apt-get install python3-venv" >&2; exit 2; }; \
	    echo "$(PYTHON) has no ensurepip: installing virtualenv for this user with pip"; \
	    $(PYTHON) -m pip install --quiet --user --break-system-packages virtualenv; }; \
	  echo "making a virtual environment in $(VENV) with virtualenv"; \
	  $(PYTHON) -m virtualenv --quiet $(VENV); \
	fi

$(READY): pyproject.toml $(wildcard src/mothtrap/statistics/*.[ch] src/mothtrap/adapters/torch/forward/*.c) | $(BIN)/python
	@echo "installing mothtrap and its development tools into $(VENV); this can take minutes"
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

# Without the development tools, which are most of what `make test` installs.
$(FOR_DEMO): pyproject.toml | $(BIN)/python
	@$(BIN)/python -c 'import mothtrap, sklearn, torch' 2>/dev/null || { \
	  echo "installing mothtrap, scikit-learn and $(TORCH) into $(VENV); this can take a minute"; \
	  $(BIN)/python -m pip install --quiet '$(TORCH)' && \
	  $(BIN)/python -m pip install --quiet --editable '.[demo]'; }
	@touch $@

$(WITH_TORCH): $(READY)
	@$(BIN)/python -c 'import torch' 2>/dev/null || { \
	  echo "installing $(TORCH) into $(VENV); this can take minutes"; \
	  $(BIN)/python -m pip install --quiet '$(TORCH)'; }
	@touch $@
