# Every target does its own set-up: a machine with Python (3.11 or newer), git and make is enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check fmt pictures torture bench peers house mutants pins clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/.run  ## watch the main job: a bug fixed, a kill -9 survived, a commit made (30 s, no keys)
	@$(BIN)/treadle demo

test: $(VENV)/.dev  ## run the tests
	$(BIN)/pytest $(T)

check: $(VENV)/.dev  ## everything that must hold before a change lands (includes `make test`)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --strict --no-namespace-packages $(TYPED)
	$(BIN)/node $(JUDGES)/node_modules/pyright/index.js --pythonpath $(BIN)/python $(TYPED)
	$(BIN)/lint-imports
	$(BIN)/treadle graph --check docs/conversation-machine.mmd
	$(BIN)/treadle graph --machine task --check docs/task-machine.mmd
	$(MAKE) test

# What programs see: a checker must infer it, and the examples must please the strictest.
TYPED := tests/library/typed_program.py $(wildcard examples/*.py)

fmt: $(VENV)/.dev  ## format, and regenerate the generated files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/treadle graph > docs/conversation-machine.mmd
	$(BIN)/treadle graph --machine task > docs/task-machine.mmd
	$(BIN)/python tests/cli/commands_page.py > docs/commands.md
	$(BIN)/python tests/tools/definitions.py > tests/tools/builtin_tools.json
	$(BIN)/python tests/tools/definitions.py openai > tests/tools/tools_openai.json
	$(BIN)/python tests/tools/definitions.py gemini > tests/tools/tools_gemini.json
	PYTHONPATH=tests $(BIN)/python tests/app/request_snapshots.py

pictures: $(VENV)/.dev  ## take the pictures of the docs anew, from real sessions
	$(BIN)/python tests/terminal/pictures.py
	$(BIN)/python tests/server/page_pictures.py

torture: $(VENV)/.dev  ## the long crash sweeps and simulations (tens of minutes)
	$(BIN)/pytest -m torture --timeout 3600 $(T)

bench: $(VENV)/.dev  ## measure; a table of ratios (B=--compare: with bench/history.jsonl; B="turns sync": parts)
	PYTHONPATH=tests $(BIN)/python -m bench $(B)

peers: $(VENV)/.dev  ## the same bot in other libraries, killed and raced, and their turns on PostgreSQL: prints the tables of docs/comparison.md
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --require-hashes --requirement bench/peers/requirements.txt
	.venv-peers/bin/pip install --quiet --no-index --no-deps --no-build-isolation --editable .
	.venv-peers/bin/python bench/peers/compare.py
	PYTHONPATH=tests .venv-peers/bin/python bench/peers/turns/compare.py

house: $(VENV)/.dev  ## measure the structure of the source: rooms, names, paths of an event
	@PYTHONPATH=tests $(BIN)/python -m house

mutants: $(VENV)/.dev  ## change random operators of each room, and count the changes that tests notice
	@PYTHONPATH=tests $(BIN)/python -m house.mutants $(M)

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .venv-peers $(JUDGES)/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

pins: $(VENV)/bin/uv  ## pin the dependencies of pyproject.toml, with their hashes
	$(COMPILE) $(UPGRADE) --extra server --extra fleet --extra pictures --extra mcp --extra remote --extra web --group dev -o constraints.txt
	$(COMPILE) --constraint constraints.txt -o constraints-run.txt
	$(COMPILE) bench/peers/requirements.in -o bench/peers/requirements.txt

COMPILE := $(BIN)/uv pip compile --quiet pyproject.toml --group build --universal --generate-hashes \
	--no-annotate --no-header

# Not by way of `.dev`, which the next `make` installs, with what is pinned then.
$(VENV)/bin/uv: | $(VENV)/bin/pip
	$(INSTALL) --require-hashes --requirement constraints.txt

$(VENV)/bin/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Treadle needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

# Nothing is installed of which the hash is not known, not even to build with: pip comes with Python.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
EDIT    := $(INSTALL) --no-index --no-deps --no-build-isolation --editable .

$(VENV)/.run: pyproject.toml constraints-run.txt | $(VENV)/bin/pip
	$(INSTALL) --require-hashes --requirement constraints-run.txt
	$(EDIT)
	@touch $@

# Some judges are JavaScript: an official client of the editors' protocol, the reference servers
# and the conformance suite of MCP, a type checker; their lock file has the hashes.
JUDGES := tests

$(VENV)/.dev: pyproject.toml constraints.txt $(JUDGES)/package-lock.json | $(VENV)/bin/pip
	$(INSTALL) --require-hashes --requirement constraints.txt
	$(BIN)/npm ci --silent --ignore-scripts --no-audit --no-fund --prefix $(JUDGES)
	$(EDIT)
	@touch $@ $(VENV)/.run
