# Everything a fresh clone needs: each target makes the environment in .venv first, once.

# The first of these that is new enough; make PYTHON=... takes another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# Processes that run tests: one more than there are processors, since many tests wait for what they have started.
JOBS ?= $(shell "$(PYTHON)" -c 'import os; print(min(os.cpu_count() or 1, 7) + 1)' 2>/dev/null)
SECONDS ?= 600

.PHONY: help install demo test test-all lint format docs site package bench benchmark corpus fuzz clean

help:
	@echo "make demo       repair a broken training script and show cause, patch and proof"
	@echo "make test       run the tests"
	@echo "make test-all   run the slow ones of which make test takes a part, too"
	@echo "make lint       ruff and mypy"
	@echo "make bench      time autofix check beside ruff and TorchFix; FULL=--full takes hours"
	@echo "make benchmark  score autofix, TorchFix and anomaly mode on the fixtures"
	@echo "make corpus     read published packages, and print every finding"
	@echo "make fuzz       look for scripts that break a property, for SECONDS=600"
	@echo "make format     format the sources"
	@echo "make docs       write docs/rules.md anew, from the codemods' docstrings"
	@echo "make site       build the pages of docs/ for the browser, into .site"
	@echo "make package    build sdist and wheel, and check what PyPI would show"
	@echo "make clean      remove the environment and all caches"

install: $(READY)

# The lock holds every package by version, torch and hatchling included, so that nothing is looked up a second time.
$(READY): pyproject.toml requirements-dev.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "autofix needs Python 3.11 or newer, which this is not: '$(PYTHON)'.  Try make PYTHON=/path/to/python3.12" >&2; \
	  exit 1; }
	"$(PYTHON)" -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

# `autofix run` ends with 0 only if the patch is proved.
demo: $(READY)
	$(BIN)/autofix run fixtures/detach_stored/broken.py

# Hundreds of processes import autofix: its bytecode is kept, whatever the environment says.  Each process takes tests that
# stand together, for what some of them have computed serves the next.
TESTS = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test: $(READY)
	$(TESTS)

# Those of which `make test` runs a fixed part, too.
test-all: $(READY)
	AUTOFIX_ALL_TESTS=1 $(TESTS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	$(BIN)/python -m tests.manual

site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict --config-file .mkdocs.yml

package: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

bench: $(READY)
	$(BIN)/python -m tests.bench $(FULL)

# CASES is another folder with cases laid out as the fixtures are.
benchmark: $(READY)
	$(BIN)/python -m tests.benchmark --verbose $(CASES)

# Wheels from the package index, unpacked in .corpus: some hundred megabytes.
corpus: $(READY)
	$(BIN)/python -m tests.corpus

# For a nightly run: generated scripts and mutants of the fixtures; the faults are printed, and the exit code is 1.
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

clean:
	rm -rf $(VENV) .corpus .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
