# Every target sets up what it needs; python3 (3.11 or newer) and a network to PyPI are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Many tests wait for processes and for times to pass: more workers than cores keep the cores busy.
JOBS ?= 5

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-quick test soak live-soak bench bench-links mutants docs lint format types check clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "chordal needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

setup: $(READY) ## Install everything into .venv

demo: $(READY) ## See the main job done on real processes, in about a minute
	$(BIN)/chordal demo

demo-quick: $(READY) ## The same with smaller experiments
	$(BIN)/chordal demo --quick

test: $(READY) ## Run the tests
	$(BIN)/python -m pytest -n $(JOBS) -m 'not soak'

soak: $(READY) ## Run the long tests
	$(BIN)/python -m pytest -m 'soak or hypothesis' --hypothesis-profile soak

live-soak: $(READY) ## Kill, freeze and cut off real brokers for three minutes, and measure
	$(BIN)/python -m benchmarks.campaigns.live --load

bench: $(READY) ## Measure events per second, and simulated time per real second
	$(BIN)/python -m benchmarks.speed.events
	$(BIN)/python -m benchmarks.speed.simulator
	$(BIN)/python -m benchmarks.speed.kernel

bench-links: $(READY) ## Measure links and brokers beside a bare relay, plain and TLS; takes some minutes
	$(BIN)/python -m benchmarks.speed.links $(if $(NATS),--nats $(NATS))

mutants: $(READY) ## Break the ring protocol in many ways, and see who notices
	$(BIN)/python -m tests.mutants

docs: $(READY) ## Build the site of all pages in docs/site, to be read without a network
	$(BIN)/sphinx-build -q -W --keep-going -d docs/site/.doctrees docs docs/site
	@echo "open docs/site/index.html"

lint: $(READY) ## Check style, and what imports what
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache --no-logo

format: $(READY) ## Put the style right
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(READY) ## Check types
	$(BIN)/mypy

check: lint types test ## Style, types and tests

clean: ## Remove what make has made
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis demo-out docs/site docs/reference docs/project
