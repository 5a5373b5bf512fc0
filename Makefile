# The front door. Every target sets up what it needs, in .venv, by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Without compiled files each worker, and each server that a test starts, compiles anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-report pictures docs man test check format-check lint types arrows fix bench soak repositories conformance test-integrations test-lowest release clean

help: ## Show what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

# Without the tools of developers, which take five times as long to install.
demo: $(if $(wildcard $(READY)),$(READY),$(VENV)/.program) ## The main job on the sample content, through a real MCP client
	@$(BIN)/python -m demo.run

pictures: $(READY) ## The pictures of the README and the documentation, taken again
	@$(BIN)/python -m demo.pictures

demo-report: $(READY) ## A made-up month of use, and the page that a report makes of it
	@$(BIN)/python -m demo.month $(ARGUMENTS)

test: $(READY) ## All tests, on all cores
	$(BIN)/pytest --numprocesses auto --dist worksteal -m "not conformance"

conformance: $(READY) ## The protocol's suite and Inspector, and programs of others, where npm and pip reach them
	$(BIN)/pytest -m conformance tests/e2e/test_conformance.py tests/e2e/test_programs_of_others.py tests/release

check: format-check lint types arrows test conformance test-integrations ## Everything that CI runs

format-check: $(READY)
	$(BIN)/ruff format --check

lint: $(READY)
	$(BIN)/ruff check

types: $(READY)
	$(BIN)/mypy

arrows: $(READY) ## Which module may import which
	$(BIN)/lint-imports

fix: $(READY) ## Format, and repair what can be repaired
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(READY) $(VENV)/.bench $(VENV)/.meanings ## Each budget and figure, against floors; ARGUMENTS=--quick
	@$(BIN)/python -m benchmarks.run $(ARGUMENTS)

accuracy: $(READY) $(if $(findstring --meanings,$(ARGUMENTS)),$(VENV)/.meanings) $(if $(findstring --peers,$(ARGUMENTS)),$(VENV)/.bench $(VENV)/.peers) ## How often routing is right; ARGUMENTS="SET … --peers --meanings --parts --curves --reliability"
	@$(BIN)/python -m benchmarks.accuracy $(ARGUMENTS)

soak: $(READY) $(VENV)/.soak ## Each promise, tried for an hour and a quarter; ARGUMENTS=--quick
	@$(BIN)/python -m soak.run $(ARGUMENTS)

repositories: $(READY) ## Repositories of each layout: what is served, named, lost; ARGUMENTS="FOLDER …"
	@$(BIN)/python -m repositories.run $(ARGUMENTS)

test-integrations: $(READY) ## Each framework in an environment of its own; ARGUMENTS="langchain adk"
	@$(BIN)/python -m frameworks.run $(ARGUMENTS)

# What is compared with; what cannot be installed is left out of the table.
$(VENV)/.bench: $(READY)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --group bench \
	  && touch $@ || echo "Without the engines to compare with: they cannot be installed"

# One by one: some need a newer Python.
$(VENV)/.peers: $(READY)
	@for peer in agentskills-retrieval skill-proof-router skillroute; do \
	  $(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) $$peer \
	  || echo "Without $$peer: it cannot be installed"; done; touch $@

$(VENV)/.meanings: $(READY)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --group meanings \
	  && touch $@ || echo "Without a model to compare meanings with: it cannot be installed"

# Without a fuzzer its scenario is skipped, and says so.
$(VENV)/.soak: $(READY)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --group soak \
	  && touch $@ || echo "Without the fuzzers: they cannot be installed"

docs: $(READY) ## The documentation as a site, in site/, every link checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --config-file website/mkdocs.yml
	@echo "Open site/index.html, or with search: $(BIN)/python -m http.server --directory site"

man: $(READY) ## The help in the reference, and the manual page, written anew
	@$(BIN)/python -m tests.docs.help_texts

release: $(READY) $(VENV)/.release ## What a release publishes, built and checked; ARGUMENTS="--repository URL"
	@$(BIN)/python -m release.run $(ARGUMENTS)

$(VENV)/.release: $(READY)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --group release
	@touch $@

test-lowest: ## All tests with the oldest dependencies that pyproject.toml allows
	@$(MAKE) --no-print-directory test VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt

clean: ## Remove what the targets above have made
	rm -rf dist site .venv .venv-lowest .frameworks .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

CONSTRAINTS ?= constraints.txt

$(READY): WANTED := --group dev --editable .
$(VENV)/.program: WANTED := --editable .

$(READY) $(VENV)/.program: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV), once: an environment of Python with this program."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --upgrade pip
	@rm -f $(VENV)/.failed
	@{ $(BIN)/pip install --disable-pip-version-check --constraint $(CONSTRAINTS) $(WANTED) \
	  || touch $(VENV)/.failed; } | awk ' \
	  /^Collecting/ { sub(/[^A-Za-z0-9._-].*/, "", $$2); printf "%s%s", n++ ? " " : "Fetching packages: ", $$2; fflush() } \
	  /^Installing collected/ { print ""; print "Installing " n " packages"; fflush() }'
	@test ! -e $(VENV)/.failed
	@touch $@
