# The whole workflow. `make` alone says what there is.
#
# Works with GNU make 3.81 (what macOS has) and a POSIX shell. Everything is installed into $(VENV), nothing elsewhere.

# The oldest supported Python first: what runs on it runs on the newer ones.
ifndef PYTHON
PYTHON := $(shell for p in python3.11 python3.12 python3.13 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v "$$p" && break; done)
endif
VENV ?= .venv
ARGS ?=
SEEDS ?= 1000
SECONDS ?= 60
TARGET ?= lines
FIRST ?= 1
HOURS ?= 1
OTHER_VERSIONS ?= 3.12 3.13
# The slow tests (200 kills, floods) prove the same on every version: once is enough.
OTHER_ARGS ?= -m 'not slow'

BIN = $(VENV)/bin
INSTALL = "$(BIN)/python" -m pip --disable-pip-version-check install --quiet --root-user-action=ignore

.DEFAULT_GOAL := help
.PHONY: help run test test-others test-all lint lint-style lint-format lint-types lint-imports security format bench docs docs-serve screenshots simulate fuzz chaos soak clean

help:
	@printf '%s\n' \
	'' \
	'  Welcome to EdgeSocket: collectors push lines over TCP, and an ACK means a completed checkpoint covers them.' \
	'' \
	'    make run        start here: runs a small job and a collector, and shows what happened' \
	'    make test       run all tests' \
	'' \
	'  For changing it:' \
	'' \
	'    make lint       style, types and the import rules' \
	'    make security   look for known holes: in the sources, and in the libraries that are installed' \
	'    make format     put the style right' \
	'    make test-all   all tests, and the quick ones on every other supported Python on this machine' \
	'    make bench      how fast it is here (make bench ARGS=--quick for a first look)' \
	'    make docs       the documentation as a site (make docs-serve shows it while you write)' \
	'    make screenshots  the pictures of docs/dashboard.md, taken anew of real jobs (needs Chromium)' \
	'    make simulate   run the simulator on other seeds (make simulate SEEDS=1000 FIRST=1)' \
	'    make chaos      real processes under faults (make chaos ARGS="--row kill-both --runs 20"; --list says which)' \
	'    make soak       a load with faults for hours; memory has to stay flat (make soak HOURS=1)' \
	'    make fuzz       any bytes into one reader of foreign bytes (make fuzz TARGET=packet SECONDS=600)' \
	'    make clean      remove what these commands made, except output, results and state' \
	'' \
	'  The first command sets everything up in $(VENV), which takes a minute. All you need is Python 3.11 or newer.' \
	"  One test, one option: make test ARGS='tests/unit -x'. Another Python: make test PYTHON=python3.13 VENV=.venv-3.13" \
	''

run: $(VENV)/.run
	@"$(BIN)/python" examples/quickstart.py $(ARGS)

test: $(VENV)/.test
	@"$(BIN)/python" -m pytest $(ARGS)

# What is missing is said before the first run, so that the output ends with a test run's own last line.
test-others:
	@for version in $(OTHER_VERSIONS); do \
		sh .ci/find-python "$$version" >/dev/null || echo "Python $$version: skipped, there is none on this machine"; \
	done; \
	failed=; \
	for version in $(OTHER_VERSIONS); do \
		python=$$(sh .ci/find-python "$$version") || continue; \
		echo "Python $$version: $$python"; \
		$(MAKE) --no-print-directory test PYTHON="$$python" VENV="$(VENV)-$$version" ARGS="$(OTHER_ARGS)" || failed="$$failed $$version"; \
	done; \
	if [ -n "$$failed" ]; then echo "tests failed on Python$$failed" >&2; exit 1; fi

test-all: test
	@$(MAKE) --no-print-directory test-others

lint: lint-style lint-format lint-types lint-imports

lint-style: $(VENV)/.lint
	"$(BIN)/ruff" check

lint-format: $(VENV)/.lint
	"$(BIN)/ruff" format --check

lint-types: $(VENV)/.lint
	"$(BIN)/mypy"
	"$(BIN)/mypy" -p bench
	"$(BIN)/mypy" -p chaos

lint-imports: $(VENV)/.lint
	"$(BIN)/lint-imports"

security: $(VENV)/.lint
	@"$(BIN)/python" .ci/security.py

format: $(VENV)/.lint
	"$(BIN)/ruff" check --fix
	"$(BIN)/ruff" format

bench: $(VENV)/.run
	@"$(BIN)/python" -m bench $(ARGS)

docs: $(VENV)/.docs
	@"$(BIN)/mkdocs" build --strict --quiet
	@echo "the documentation is in site/index.html"

docs-serve: $(VENV)/.docs
	@"$(BIN)/mkdocs" serve

screenshots: $(VENV)/.test
	@$(INSTALL) --group screenshots
	@"$(BIN)/python" -m tests.browser.screenshots

simulate: $(VENV)/.run
	@"$(BIN)/python" -m edgesocket.testing.simulator --seeds $(SEEDS) --first $(FIRST) $(ARGS)

fuzz: $(VENV)/.fuzz
	@"$(BIN)/python" -m tests.fuzz $(TARGET) --seconds $(SECONDS) $(ARGS)

chaos: $(VENV)/.test
	@"$(BIN)/python" -m chaos $(ARGS)

soak: $(VENV)/.test
	@"$(BIN)/python" -m chaos.soak --hours $(HOURS) $(ARGS)

clean:
	rm -rf "$(VENV)" "$(VENV)"-3.* .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist
	rm -rf bench/results/build
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- Setting up. A stamp in the environment says what has been installed; what it was made from asks for it again.

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "EdgeSocket needs Python 3.11 or newer, and there is none on this machine." >&2; \
		echo "  Debian, Ubuntu:  sudo apt-get install python3 python3-venv" >&2; \
		echo "  macOS:           brew install python@3.13, or the installer from python.org" >&2; \
		echo "or say where it is: make run PYTHON=/path/to/python3" >&2; \
		exit 69; \
	fi
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is too old: EdgeSocket needs Python 3.11 or newer." >&2; exit 69; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		package=$$("$(PYTHON)" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing $$package: this Python cannot make virtual environments without it."; \
			apt-get -qq update && \
			DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y \
				--no-install-recommends "$$package" >/dev/null; \
		else \
			echo "This Python cannot make virtual environments. Debian and Ubuntu keep that in a package of its own:" >&2; \
			echo "  sudo apt-get install $$package" >&2; \
			echo "Then run the same make command again." >&2; \
			exit 69; \
		fi; }
	@echo "Setting up $(VENV) with $$("$(PYTHON)" --version), once ..."
	@"$(PYTHON)" -m venv "$(VENV)" || { rm -rf "$(VENV)"; exit 1; }

$(VENV)/.run: pyproject.toml hatch_build.py src/edgesocket/protocol/kernels.c src/edgesocket/schema/flat_rows.c | $(BIN)/python
	@$(INSTALL) --editable '.[engine]'
	@touch "$@"

# Dependency groups need a pip that knows them.
$(VENV)/.test: pyproject.toml $(VENV)/.run
	@$(INSTALL) --upgrade 'pip>=25.1'
	@$(INSTALL) --editable '.[all,ray]'
	@$(INSTALL) --group test
	@touch "$@"

$(VENV)/.fuzz: pyproject.toml $(VENV)/.test
	@$(INSTALL) --group fuzz
	@touch "$@"

$(VENV)/.docs: pyproject.toml $(VENV)/.run
	@$(INSTALL) --upgrade 'pip>=25.1'
	@$(INSTALL) --group docs
	@touch "$@"

$(VENV)/.lint: pyproject.toml $(VENV)/.test
	@$(INSTALL) --group lint
	@touch "$@"
