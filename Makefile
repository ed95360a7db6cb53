# The two main commands are `make longtx` and `make test`. Both first install what is missing; later calls skip that.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
UV := .cache/installer/bin/uv
# The tests start hundreds of Python processes. Without kept bytecode each of them compiles the bench again, and each test process all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup required components doctor longtx test quick test-long test-libraries test-scenarios test-compose lint style format bench wheel site lock clean

help:  ## List the targets
	@sed -nE 's/^([a-z-]+):.*## +(.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do printf '%-14s %s\n' "$$name" "$$text"; done

setup:  ## Install everything that is missing; the other targets install what they need
	@$(PYTHON) -m stallbench.setup.install

# What every scenario needs.
required:
	@$(PYTHON) -m stallbench.setup.install required

# Also the servers that only some scenarios need.
components:
	@$(PYTHON) -m stallbench.setup.install components

doctor: required  ## Show which components were found and which are missing
	@$(BIN)/stallbench doctor

# make ends with 2 whenever a command fails; the line that it prints names stallbench's exit code.
longtx: required  ## Run the main scenario: one idle transaction and its effect on a queue
	@$(BIN)/stallbench run longtx

# The first check of all types keeps one processor busy for a while. Tests often wait, so beside them it costs less than before them.
test: components style site  ## Run lint, type checks and all tests except the long ones, and build the site
	@nice $(BIN)/mypy & types=$$!; \
	$(BIN)/pytest -n 3 -m "not long and not libraries"; tests=$$?; \
	wait $$types || { echo "the types are wrong: make lint"; exit 1; }; \
	exit $$tests
	@echo "not run: make test-long, test-scenarios (reported failures), test-libraries, test-compose; docs/tests.md"

quick: required style  ## Run lint, type checks and the unit tests of files that take no seconds: the loop while you work on a change
	@nice $(BIN)/mypy & types=$$!; \
	$(BIN)/pytest -n 2 -m "not long and not slow" --own-pipelines tests/unit; tests=$$?; \
	wait $$types || { echo "the types are wrong: make lint"; exit 1; }; \
	exit $$tests

test-long: components lint  ## Run the long tests, and again all end-to-end tests, where each run starts its own Spark
	@$(BIN)/pytest -n 2 -m "(long or end_to_end) and not libraries" --own-pipelines

test-libraries: components  ## Test every published library under test; installs each when it is first used
	@$(BIN)/pytest -n 2 tests/libraries tests/end_to_end/test_librar*.py
	@$(BIN)/pytest -m libraries tests/integration/test_library_*.py tests/end_to_end/test_limit.py tests/end_to_end/test_torture.py
	@$(BIN)/pytest tests/integration/test_observe_queues.py tests/integration/test_observe_innodb.py -k own_tables

test-scenarios: components  ## Test that every scenario of a reported failure, in a short form, shows what was reported
	@$(BIN)/pytest tests/end_to_end/test_reported_failures.py

test-compose: required  ## Test the containers; needs a running Docker engine
	@STALLBENCH_TEST_COMPOSE=1 $(BIN)/pytest -m compose tests/compose

lint: required style  ## Check format, lint and types without changing anything
	@$(BIN)/mypy

# What is checked in a second.
style: required
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .

format: required  ## Format the code
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

bench: components  ## Measure the overhead of the bench itself, as ratios within one run
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.laravel
	@$(BIN)/python -m benchmarks.statements
	@$(BIN)/python -m benchmarks.loading

wheel: required  ## Build the package: dist/stallbench-*.whl
	@$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build
	@ls dist/*.whl

site: required  ## Build the site of the documentation: build/site
	@cmp --quiet requirements/site.lock .cache/site/site.lock || { $(UV) venv --quiet --clear .cache/site \
	  && $(UV) pip install --quiet --python .cache/site/bin/python --require-hashes --requirement requirements/site.lock \
	  && cp requirements/site.lock .cache/site/; }
	@NO_MKDOCS_2_WARNING=1 .cache/site/bin/mkdocs build --strict --quiet --config-file tools/site/mkdocs.yml
	@echo "build/site; to read it: $(PYTHON) -m http.server --directory build/site --bind 127.0.0.1"

# What is in the file that is written has the versions that the file names.
COMPILE_SAME = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate
COMPILE = $(COMPILE_SAME) --upgrade

lock:  ## Resolve and lock the dependencies again (needs uv)
	$(COMPILE) pyproject.toml --extra bench --extra mcp --extra development --output-file requirements/development.lock
	cp requirements/development.lock requirements/python.lock
	cp requirements/development.lock requirements/light.lock
	cp requirements/development.lock requirements/mcp.lock
	$(COMPILE_SAME) pyproject.toml --extra bench --output-file requirements/python.lock
	$(COMPILE_SAME) pyproject.toml --output-file requirements/light.lock
	$(COMPILE_SAME) pyproject.toml --extra mcp --output-file requirements/mcp.lock
	for lock in build installer postgres java go node aerospike site; do $(COMPILE) requirements/$$lock.in --output-file requirements/$$lock.lock; done

clean:  ## Remove what dead runs left behind, and everything that was set up in this folder
	@if [ -x $(BIN)/stallbench ]; then $(BIN)/stallbench clean; fi
	rm -rf .venv .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
