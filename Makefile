# The developer interface; `make help` lists it. Everything is installed into .venv and the user's cache directory.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1

.PHONY: help setup run demo test check control-plane format generate bench bench-operator clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: .venv/ready ## Install everything into .venv and export the embedding model once

.venv/ready: pyproject.toml constraints.txt scripts/system.sh
	@bash scripts/system.sh $(PYTHON)
	@echo "installing into .venv: about 2 GB, a few minutes the first time"
	$(PYTHON) -m venv .venv
	@# torch first and pinned: any other version would bring gigabytes of accelerator libraries along
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[export,dev]'
	$(BIN)/python -m formulary_catalog.embedding.export
	@touch $@

run: setup ## Start Formulary on loopback with the starter catalog and show a first search
	@bash scripts/run.sh

demo: setup control-plane ## Show two incidents and one question in a cluster of its own, as docs/demo.md tells
	@PYTHONPATH=tests $(BIN)/python scripts/demo.py

test: setup check control-plane ## Run all checks and all tests
	@bash scripts/system.sh npm
	$(BIN)/pytest

check: setup ## Format, lint, types, layering, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate.py --check

control-plane: setup ## Build the Kubernetes API server that tests run on: 8 minutes, once
	@PYTHONPATH=tests $(BIN)/python -m support.control_plane

format: setup ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: setup ## Write the files that are derived from the code
	$(BIN)/python scripts/generate.py

bench: setup ## Measure, and print ratios within one run
	PYTHONPATH=tests $(BIN)/python tests/bench/bench.py

bench-operator: setup control-plane ## Measure the operator with 1,000 workflows, or OBJECTS=10000
	PYTHONPATH=tests $(BIN)/python tests/bench/bench_operator.py $(if $(OBJECTS),--objects $(OBJECTS))

clean: ## Remove what was installed and built here
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
