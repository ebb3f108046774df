# Each target sets up what it needs. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help demo test tests lint check checks types quick pythons bench conformance fuzz reliability soak suite site pictures format clean ask
PY := .venv/bin/python
# Where the environment forbids it, every one of some thousand Pythons that the tests start would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

.venv/.runtime: pyproject.toml constraints.txt scripts/bootstrap.sh
	@scripts/bootstrap.sh runtime

.venv/.dev: pyproject.toml constraints.txt scripts/bootstrap.sh
	@scripts/bootstrap.sh dev

.venv/.site: pyproject.toml constraints.txt scripts/bootstrap.sh
	@scripts/bootstrap.sh site

ifdef PYTHON
# Whether .venv was made by it is asked each time.
.venv/.runtime .venv/.dev: ask
ask:
endif

suite: .venv/.dev
	@$(PY) scripts/fetch_schema_suite.py
	@$(PY) scripts/setup_local.py
	@$(PY) scripts/setup_node.py
	@$(PY) scripts/setup_peers.py
	@scripts/setup_rust.sh
	@scripts/setup_sandbox.sh
	@scripts/setup_browser.sh
	@scripts/setup_translator.sh
	@scripts/setup_postgres.sh

demo: .venv/.runtime  ## a real model on this machine, real tools, an approval, a verified audit log
	@$(PY) scripts/setup_local.py
	@$(PY) docs/examples/demo.py

lint: .venv/.dev
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet .

check: lint  ## lint, format, types, direction of imports, sizes
	@$(PY) -m mypy
	@.venv/bin/lint-imports
	@$(PY) scripts/sizes.py

test: lint  ## run every check and test
	@$(MAKE) --no-print-directory -j2 tests checks

# The examples of the docs are read by type checkers after `check`, whose cache of mypy they use: without it they take a minute more.
EXAMPLE_TYPES := tests/docs/test_example_types.py

tests: suite
	@$(PY) -m pytest -q -n auto --dist worksteal --ignore=$(EXAMPLE_TYPES)

# Beside the tests and what they fetch first, as each needs one core only. What they say is shown as a whole.
checks: .venv/.dev
	@mkdir -p .cache; $(MAKE) --no-print-directory check types pythons >.cache/checks.txt 2>&1; said=$$?; cat .cache/checks.txt; exit $$said

types: check
	@$(PY) -m pytest -q -n 0 -p no:cacheprovider $(EXAMPLE_TYPES)

quick: .venv/.dev  ## ruff, and the tests that the change since main touches (under a minute)
	@$(PY) scripts/quick.py

pythons: .venv/.dev  ## test what differs between Pythons, on each Python from 3.11 on that this machine has (1 min each)
	@$(PY) scripts/pythons.py

bench: .venv/.dev  ## benchmark against a hand-written loop and the usual frameworks (20 min)
	@$(PY) -m bench

conformance: suite  ## run the official MCP suite against our server and our client (2 min)
	@$(PY) -m conformance

fuzz: suite  ## fuzz every parser, for a minute each (FUZZ=seconds)
	@$(PY) -m fuzz --seconds $(or $(FUZZ),60)

reliability: suite  ## make one payment in every way, kill a process at every step: the table of docs/reliability.md
	@$(PY) -m reliability

soak: suite  ## run the long tests: crashes, kills, thousands of turns and calls, fuzzing
	@$(PY) -m soak

site: .venv/.dev .venv/.site  ## build the documentation as a site, in site/
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@$(PY) -m pytest -q -p no:cacheprovider tests/docs/test_site_build.py && echo "site/index.html"

pictures: suite  ## make the pictures of the page and the terminal in docs/pictures/
	@$(PY) scripts/pictures.py

format: .venv/.dev  ## format the code
	@$(PY) -m ruff format . && $(PY) -m ruff check --fix .

clean:  ## delete everything that was installed or built
	@rm -rf .venv .cache dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
