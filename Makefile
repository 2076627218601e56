# One word per job; each makes .venv first if it is missing or out of date.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench docs

help: ## say what the words do
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

setup: .venv/ready ## make .venv with paceline and all it needs

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "paceline needs Python 3.10 or newer, found " + sys.version.split()[0] + ": make PYTHON=python3.12 setup")'
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
	@echo 'ready: paceline is in $(BIN); type . $(BIN)/activate once to have it in your PATH'

demo: setup ## train on an emulated 4:2:1:1 cluster with each strategy in turn, and compare
	$(BIN)/paceline demo

test: setup ## run all tests
	$(BIN)/pytest -n 2 --maxschedchunk 1

check: setup ## lint, format, types, layers, sizes
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/size.py

bench: setup ## run the benchmarks
	$(BIN)/paceline bench overhead
	$(BIN)/paceline bench link

docs: setup ## run every snippet of the documentation
	$(BIN)/pytest tests/docs
