# Two commands do everything: `make longtx` and `make test`. Both set up what is missing first, and are quick the second time.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help setup doctor longtx test test-compose lint format bench lock clean

help:  ## What can be made
	@sed -nE 's/^([a-z-]+):.*## +(.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do printf '%-12s %s\n' "$$name" "$$text"; done

setup:  ## Install what is missing: Python packages, PostgreSQL, Java, Toxiproxy
	@$(PYTHON) -m stallbench.setup.install

doctor: setup  ## Say what is there and what is missing
	@$(BIN)/stallbench doctor

# make itself ends with 2 whenever a command fails; the line that it prints names stallbench's own exit code.
longtx: setup  ## The main job: one idle transaction, and what it does to a queue
	@$(BIN)/stallbench run longtx

test: lint  ## Lint, types and all tests
	@$(BIN)/pytest -n 2 --dist loadfile

test-compose: setup  ## A scenario in containers, on a Docker engine that runs
	@STALLBENCH_TEST_COMPOSE=1 $(BIN)/pytest -m compose tests/compose

lint: setup  ## Format, lint and types, without changing anything
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

format: setup  ## Format the code
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

bench: setup  ## Measure the bench itself, as ratios within one run
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.laravel
	@$(BIN)/python -m benchmarks.loading

COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --upgrade

lock:  ## Choose and lock the dependencies anew (needs uv)
	$(COMPILE) pyproject.toml --extra development --output-file requirements/python.lock
	for part in postgres java go aerospike; do $(COMPILE) requirements/$$part.in --output-file requirements/$$part.lock; done

clean:  ## Remove what dead runs left, and everything that was set up in this folder
	@if [ -x $(BIN)/stallbench ]; then $(BIN)/stallbench clean; fi
	rm -rf .venv .cache *.egg-info .pytest_cache .mypy_cache .ruff_cache
