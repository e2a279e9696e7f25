# Every command of the project. All work happens in a virtual environment of its own.
PYTHON ?= python3.11

VENV := .venv
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# The stamps carry a hash, so that the environment is built anew when the
# dependencies, the tested versions or the interpreter change.
HASH := $(shell echo $(PYTHON) | cat - pyproject.toml $(CONSTRAINTS) | cksum | cut -d ' ' -f 1)
INSTALLED := $(VENV)/.installed-$(HASH)
INSTALLED_TESTS := $(VENV)/.installed-tests-$(HASH)
INSTALLED_NIGHTLY := $(VENV)/.installed-nightly-$(HASH)
INSTALLED_DOCS := $(VENV)/.installed-docs-$(HASH)
INSTALLED_DIST := $(VENV)/.installed-dist-$(HASH)

# What `make install` installs: this folder, or a wheel for `make dist`.
PACKAGE := -e .

# Prints what pyproject.toml asks for, or one of its extras. On Linux it takes the CPU
# build of xgboost: the other one brings a CUDA library of hundreds of megabytes along.
define PRINT_REQUIREMENTS
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
for line in extras[sys.argv[1]] if sys.argv[1:] else project["dependencies"]:
    print(line.replace("xgboost>", "xgboost-cpu>") if sys.platform == "linux" else line)
endef
export PRINT_REQUIREMENTS

# Two processes with one thread each are faster than two with two. Each takes a half of
# the tests in their order, so that most fixtures of a module are made once.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

# What `make test` runs: all, unless `make test TESTS=...` names some.
TESTS :=

# The lower bounds have an environment of their own, and the tests that meet all the
# dependencies but matplotlib: the last two are for xgboost and imbalanced-learn.
LOWEST := .venv-lowest
TESTS_LOWEST := tests/test_wheel.py tests/model/test_fitting.py tests/table tests/measure tests/sampling tests/schema \
    tests/privacy tests/test_common.py tests/metrics/test_encode.py \
    tests/test_base.py tests/test_types.py tests/test_containers.py tests/fuzz/test_fuzz.py

# The site has an environment of its own too. The scripts of the gallery whose path
# matches GALLERY are run; the others are shown as they stand.
DOCS := .venv-docs
GALLERY := /plot_

.PHONY: help install install-tests demo lint format test coverage test-lowest test-audit size replay \
    test-nightly bench docs html dist clean

help:
	@echo "make demo          fit, sample and score on a real table; write a plot and a CSV"
	@echo "make test          the tests (6 to 10 minutes on 2 cores)"
	@echo "make coverage      the same tests; fails if they miss too much (15 minutes)"
	@echo "make test-lowest   some of them with the lower bounds of pyproject.toml"
	@echo "make test-audit    attacks on the privacy claim (4 to 7 minutes)"
	@echo "make replay        fits of odd tables with and without a row (10 minutes)"
	@echo "make size          lines, tokens and names of every folder"
	@echo "make test-nightly  the tests that take long"
	@echo "make bench         seconds and memory of all synthesizers, of few and small tables"
	@echo "make docs          the site, in docs/_build/html (4 minutes)"
	@echo "make dist          sdist and wheel in dist, tried in a fresh environment"
	@echo "make lint          ruff, mypy and the docstrings"
	@echo "make format        let ruff format the code"
	@echo "make install       only make the virtual environment $(VENV)"
	@echo "make clean         remove the virtual environments and the caches"

install: $(INSTALLED)

install-tests: $(INSTALLED_TESTS)

$(INSTALLED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "error: '$(PYTHON)' is not a Python >= 3.11." >&2; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) > $(VENV).log 2>&1 \
	    || { rm -rf $(VENV); $(PYTHON) -m virtualenv $(VENV); } >> $(VENV).log 2>&1 \
	    || { cat $(VENV).log; rm -rf $(VENV) $(VENV).log; \
	    echo "error: '$(PYTHON)' can make no virtual environment with pip." >&2; \
	    echo "Remedy: 'apt install python3.11-venv' or '$(PYTHON) -m pip install virtualenv'" >&2; \
	    exit 1; }
	@rm -f $(VENV).log
	$(PIP) install -c $(CONSTRAINTS) torch
	$(BIN)/python -c "$$PRINT_REQUIREMENTS" > $(VENV)/requirements.txt
	$(PIP) install -c $(CONSTRAINTS) -r $(VENV)/requirements.txt
	$(PIP) install --no-deps $(PACKAGE)
	@touch $@

$(INSTALLED_TESTS): $(INSTALLED)
	$(BIN)/python -c "$$PRINT_REQUIREMENTS" tests > $(VENV)/requirements-tests.txt
	$(PIP) install -c $(CONSTRAINTS) -r $(VENV)/requirements-tests.txt
	@touch $@

$(INSTALLED_NIGHTLY): $(INSTALLED_TESTS)
	$(BIN)/python -c "$$PRINT_REQUIREMENTS" test-nightly > $(VENV)/requirements-nightly.txt
	$(PIP) install -c $(CONSTRAINTS) -r $(VENV)/requirements-nightly.txt
	@touch $@

$(INSTALLED_DOCS): $(INSTALLED)
	$(BIN)/python -c "$$PRINT_REQUIREMENTS" docs > $(VENV)/requirements-docs.txt
	$(PIP) install -c $(CONSTRAINTS) -r $(VENV)/requirements-docs.txt
	@touch $@

$(INSTALLED_DIST): $(INSTALLED)
	$(BIN)/python -c "$$PRINT_REQUIREMENTS" dist > $(VENV)/requirements-dist.txt
	$(PIP) install -c $(CONSTRAINTS) -r $(VENV)/requirements-dist.txt
	@touch $@

demo: $(INSTALLED)
	$(BIN)/python examples/demo.py

lint: $(INSTALLED_TESTS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -q -n 2 tests/test_reference.py

format: $(INSTALLED_TESTS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(INSTALLED_TESTS)
	$(PYTEST) -n 2 --dist worksteal --durations=15 $(TESTS)

# Tracing costs half as much time again, so it is not in `make test`.
coverage: $(INSTALLED_TESTS)
	$(PYTEST) -n 2 --dist worksteal --durations=15 --cov --cov-report=term $(TESTS)

test-lowest:
	$(MAKE) VENV=$(LOWEST) CONSTRAINTS=constraints-lowest.txt TESTS="$(TESTS_LOWEST)" test

test-audit: $(INSTALLED_TESTS)
	$(PYTEST) -n 2 --durations=5 -m "audit and not nightly and not replay" tests

replay: $(INSTALLED_TESTS)
	$(PYTEST) -n 2 -m audit tests/audit/test_replays.py $(ARGS)

size: $(INSTALLED_TESTS)
	$(BIN)/python tests/test_size.py

test-nightly: $(INSTALLED_NIGHTLY)
	$(PYTEST) -n 2 --durations=0 -m nightly tests

bench: $(INSTALLED)
	$(BIN)/python benchmarks/speed.py --short --limit 60 --name speed_short

docs:
	$(MAKE) VENV=$(DOCS) html

html: $(INSTALLED_DOCS)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -n -W --keep-going -b html \
	    -D sphinx_gallery_conf.filename_pattern='$(GALLERY)' docs docs/_build/html

# The wheel is made from the sdist. It is tried where nothing of this folder can be imported.
dist: $(INSTALLED_DIST)
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	away=$$(mktemp -d) && trap 'rm -rf "$$away"' EXIT && \
	    $(MAKE) VENV="$$away/venv" PACKAGE="$$(ls dist/*.whl)" install && \
	    "$$away/venv/bin/python" .ci/try_wheel.py README.md

clean:
	rm -rf $(VENV) $(LOWEST) $(DOCS) .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	rm -rf docs/_build docs/gallery docs/reference/generated docs/reference/examples
