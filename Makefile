# Everything that is done by hand here. Needs python3 (3.11 or newer) and make, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
UV ?= $(shell command -v uv || echo $(BIN)/uv)
COMPILE := $(UV) pip compile pyproject.toml --extra calendar --quiet --python-version 3.11 --universal \
	--generate-hashes --no-emit-index-url --no-header --no-annotate

# Libraries that `make bench-peers` compares with, each in an environment of its own.
PEERS := langgraph pydantic-ai openai-agents
PEER_ENVIRONMENTS := build/peers

# Options for the program that a target starts: make chat ARGS="--as alice"
ARGS ?=
# An MCP server from npm, for one test.
REFERENCE := @modelcontextprotocol/server-everything@2026.8.31
# Test processes at once: many tests wait for other processes, so that two cores have room for more.
WORKERS ?= 4
# As many as cores, for the tests that wait for nothing: each further one imports and collects them all.
FAST_WORKERS ?= 2
# How long `make soak` takes.
MINUTES ?= 60

# One part of the tests. Many of them start the bot in processes of their own, which would each compile all
# of it. Without ARGS a part without any test (5) is an error.
define RUN_PART
@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q bot db skills migrations tests
env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "$(PART)" $(ARGS)$(if $(ARGS), || [ $$? -eq 5 ])
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help chat test test-fast test-slow test-long migrations lint format bench bench-peers peer-pins measures mutants soak reference pythons requirements hooks clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

chat: $(VENV)/.installed ## Set everything up and talk to the bot in this terminal
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q bot db skills migrations
	@# It brings the database up to date itself; `bot migrate` before it would cost a second start.
	@RETINUE_HOME="$${RETINUE_HOME:-$(CURDIR)}" $(BIN)/python -m bot chat $(ARGS)

test: $(VENV)/.installed-dev ## Run the tests, on SQLite and on a real PostgreSQL: both of these parts
	@$(MAKE) --no-print-directory --keep-going test-fast test-slow

test-fast: PART := not (long or processes or slow)
test-fast: WORKERS = $(FAST_WORKERS)
test-fast: $(VENV)/.installed-dev ## Run the quick tests: without databases, other processes and real clients
	$(RUN_PART)

test-slow: PART := (processes or slow) and not long
test-slow: $(VENV)/.installed-dev ## Run the rest: with databases, processes, the clients of Discord and Slack, properties
	$(RUN_PART)

test-long: PART := long
test-long: $(VENV)/.installed-dev ## Run the long tests: stories, bots killed, real sandboxes, a short soak
	$(RUN_PART)

migrations: $(VENV)/.installed-dev ## Check that migrations and tables agree
	$(BIN)/python -m pytest tests/migrations $(ARGS)

lint: $(VENV)/.installed-dev ## Check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev ## Format the code and mend what can be mended by machine
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-dev ## Measure speed and memory, and print a table
	$(BIN)/python -m bench $(ARGS)

bench-peers: $(VENV)/.installed-dev $(PEERS:%=$(PEER_ENVIRONMENTS)/%/.installed) ## Compare with other libraries
	$(BIN)/python -m bench.peers $(ARGS)

peer-pins: $(VENV)/.installed ## Pin these libraries anew, as their .in files have them
	@test -x "$(UV)" || $(PIP) install --quiet uv
	for peer in $(PEERS); do $(UV) pip compile bench/peers/$$peer.in --quiet --python-version 3.11 --universal \
		--generate-hashes --no-emit-index-url --no-header --no-annotate $(ARGS) \
		--output-file bench/peers/$$peer.txt || exit 1; done

measures: $(VENV)/.installed-dev ## Print the measures of the source code (ARGS=--list: with names)
	$(BIN)/python -m bench.measures $(ARGS)
	$(BIN)/python -m bench.path

mutants: $(VENV)/.installed-dev ## Break important lines one at a time: the tests nearby must notice
	$(BIN)/python -m bench.mutants

soak: $(VENV)/.installed-dev ## Run the bot under load and faults for MINUTES (continues an interrupted one)
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

reference: $(VENV)/.installed-dev ## Test against the reference server of MCP (needs npm; CI does without)
	@command -v npm >/dev/null || { echo "There is no npm here: install Node.js first." >&2; exit 1; }
	npm install --prefix $(VENV)/npm --no-audit --no-fund --silent $(REFERENCE)
	$(BIN)/python -m pytest tests/skills/mcp -k reference $(ARGS)

pythons: WORKERS = $(FAST_WORKERS)
pythons: $(VENV)/.installed-dev ## Start, chat and test on every Python from 3.11 to 3.14 that is here
	@WORKERS=$(WORKERS) .ci/pythons

requirements: $(VENV)/.installed ## Pin the dependencies of pyproject.toml anew (newest: ARGS=--upgrade)
	@test -x "$(UV)" || $(PIP) install --quiet uv
	$(COMPILE) $(ARGS) --output-file requirements.txt
	$(COMPILE) $(ARGS) --group dev --constraint requirements.txt --output-file requirements-dev.txt

hooks: $(VENV)/.installed-dev ## Run the checks before every commit
	$(BIN)/pre-commit install

clean: ## Remove the environment and the caches; data/ stays
	rm -rf $(VENV) $(PEER_ENVIRONMENTS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The pins are all that is needed (--no-deps): one library that a dependency asks for is left out on
# purpose. The stamps say that they were installed. An environment that breaks off half-made is removed,
# so that the next make starts afresh.

$(VENV)/.installed: requirements.txt | $(BIN)/python
	@echo "Installing what the bot needs into $(VENV): once, for up to a minute."
	@$(PIP) install --quiet --no-deps --require-hashes --requirement requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt | $(BIN)/python
	@echo "Installing what the bot and its tests need into $(VENV): once, for up to two minutes."
	@$(PIP) install --quiet --no-deps --require-hashes --requirement requirements-dev.txt
	@touch $@ $(VENV)/.installed

$(PEER_ENVIRONMENTS)/%/.installed: bench/peers/%.txt | $(BIN)/python
	@echo "Installing $* into $(@D): once, for up to a minute."
	@rm -rf $(@D) && $(BIN)/python -m venv $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --no-deps --require-hashes --requirement $<
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "There is no $(PYTHON) here: install Python 3.11 or newer, then run make again." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$($(PYTHON) -V 2>&1), and Python 3.11 or newer is needed." \
		"If you have one, name it: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make environments, since its venv module is missing." \
		"On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) -m venv failed: the lines above say why." >&2; exit 1; }
