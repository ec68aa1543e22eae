# The developer interface; `make help` lists it. Everything is installed into .venv and the user's cache directory.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1

.PHONY: help setup run demo docs test test-all unit check control-plane format generate mutants adapter bench bench-agents bench-agents-lab bench-install bench-peers bench-quality bench-operator benchmarks benchmark-page coverage-table known-problems calibrate soak node lab dist image base-images lock platforms clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: ## Install everything into .venv
	@bash scripts/system.sh $(PYTHON)
	@$(PYTHON) scripts/install.py dev

run: ## Install what running needs, start Formulary on loopback with the starter catalog, show a first search
	@bash scripts/system.sh $(PYTHON)
	@$(PYTHON) scripts/install.py run
	@exec bash scripts/run.sh

demo: ## Install what running needs; one question, two teams, two answers, played to the approval in a minute
	@bash scripts/system.sh $(PYTHON)
	@$(PYTHON) scripts/install.py run
	@$(BIN)/formulary demo

test: setup check control-plane ## Run the checks and the first tier of tests: 9 to 17 minutes on two cores, warm; 23 to 40 where all suites run in full
	@bash scripts/system.sh npm
	@bash scripts/system.sh chromium
	@$(BIN)/python scripts/test.py

test-all: setup check control-plane ## Run the checks and all tests, those that are long by their nature too: 40 minutes to an hour
	@bash scripts/system.sh npm
	@bash scripts/system.sh chromium
	@$(BIN)/python scripts/test.py all

unit: setup ## Run the unit and property tests that need no database: a minute
	@$(BIN)/pytest -q tests/unit tests/property/domain tests/property/operator

check: setup ## Format, lint, types, layering, generated files, budget, history, GitHub workflows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate.py --check
	$(BIN)/python scripts/budget.py
	$(BIN)/python scripts/history.py
	$(BIN)/jactionlint --no-online --shellcheck=
	$(BIN)/zizmor --offline --no-progress --quiet .github action.yml

docs: ## Build the documentation site into build/site/html; a link that leads nowhere fails it
	@$(PYTHON) -m venv build/site/venv
	@build/site/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r requirements/docs.txt
	@build/site/venv/bin/python scripts/docs_site.py

control-plane: setup ## Build the Kubernetes API server that tests run on: 8 minutes, once
	@PYTHONPATH=tests $(BIN)/python -m support.control_plane

format: setup ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: setup ## Write the files that are derived from the code
	$(BIN)/python scripts/generate.py

mutants: setup ## Change the rules of matching and ranking one by one, and see that a test notices each change
	@bash scripts/mutants.sh

bench: setup ## Measure, and print ratios within one run
	@bash scripts/measure.sh phases benchmarks/bench.py
	@bash scripts/measure.sh embedding benchmarks/bench_embedding.py
	@bash scripts/measure.sh mcp benchmarks/bench_mcp.py
	@bash scripts/measure.sh analytics benchmarks/bench_analytics.py
	@bash scripts/measure.sh startup benchmarks/bench_startup.py
	@bash scripts/measure.sh console benchmarks/bench_console.py
	@bash scripts/measure.sh tools benchmarks/bench_tools.py
	@bash scripts/measure.sh scale benchmarks/bench_scale.py $(if $(SIZES),--sizes $(SIZES))

bench-peers: setup ## Measure ours and other stores on the same catalogs; SIZES=10000,100000
	@bash scripts/measure.sh peers benchmarks/bench_peers.py $(if $(SIZES),--sizes $(SIZES))
	@bash scripts/measure.sh mcp_peers benchmarks/bench_mcp_peers.py

bench-agents: setup ## Measure what agents choose, right or forbidden, by how remedies are offered; no language model: 5 minutes, at first 15
	@bash scripts/measure.sh agents benchmarks/bench_agents.py --page docs/benchmarks/agents.md --questions build/agents-questions.jsonl

bench-agents-lab: setup control-plane ## Run what each arm of FormularyBench offers first on a real node, judge the cluster; 10 minutes: FAULTS="a b"
	@PYTHONPATH=.:tests $(BIN)/python -m lab.node.programs
	@PYTHONPATH=.:tests:benchmarks $(BIN)/python -m agents.healing $(FAULTS) --json benchmarks/agents/healed.json

bench-install: setup ## Measure the way from nothing to the first answer, with all its downloads
	@bash scripts/measure.sh install benchmarks/bench_install.py

bench-quality: setup ## Measure what searches find of the judged queries; PART=held, tune or all
	@bash scripts/measure.sh quality benchmarks/bench_quality.py $(if $(PART),--part $(PART))
	@bash scripts/measure.sh problems benchmarks/bench_problems.py
	@bash scripts/measure.sh evidence benchmarks/bench_evidence.py
	@bash scripts/measure.sh itbench benchmarks/bench_itbench.py
	@bash scripts/measure.sh warned benchmarks/bench_warned.py
	@bash scripts/measure.sh knowledge benchmarks/bench_knowledge.py

benchmarks: bench bench-install bench-peers bench-quality soak benchmark-page ## Measure everything, for hours, and write docs/benchmarks.md

benchmark-page: ## Write what was measured into docs/benchmarks.md; other sections stay
	$(BIN)/python scripts/benchmarks.py

coverage-table: setup ## Write docs/coverage-kube-prometheus.md: what the starter catalog has for the alerts of kube-prometheus
	PYTHONPATH=tests $(BIN)/python benchmarks/coverage_table.py

known-problems: setup ## Embed what the adapter was trained on, which the confidence of searches counts
	PYTHONPATH=tests:benchmarks:training $(BIN)/python training/known_problems.py

calibrate: setup ## Fit the weights and the confidence of searches to the judged queries and write them into the code
	PYTHONPATH=tests:benchmarks $(BIN)/python scripts/word_frequencies.py
	PYTHONPATH=.:tests:benchmarks $(BIN)/python scripts/calibrate.py

adapter: setup ## Train the adapter of the bundled embedding model and write it into the package: 5 minutes
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r requirements/training.txt
	$(BIN)/python training/adapter.py

bench-operator: setup control-plane ## Measure the operator with 1,000 workflows, or OBJECTS=10000
	PYTHONPATH=tests $(BIN)/python benchmarks/bench_operator.py $(if $(OBJECTS),--objects $(OBJECTS))

soak: setup ## Serve mixed traffic while one thing after another fails, for 30 minutes, or MINUTES=2
	@bash scripts/measure.sh soak -m soak.soak --minutes $(or $(MINUTES),30)

node: setup control-plane ## Run a real node with kubelet and containerd until Ctrl+C; Linux and root, 10 minutes at first
	@PYTHONPATH=.:tests $(BIN)/python -m lab.node.programs
	@PYTHONPATH=.:tests $(BIN)/python -m lab.node

lab: setup control-plane ## Break a real node in many ways, do what Formulary offers, judge the cluster: FAULTS="a b"
	@PYTHONPATH=.:tests $(BIN)/python -m lab.node.programs
	@PYTHONPATH=.:tests $(BIN)/python -m lab try $(FAULTS) --output build/lab.md

dist: setup ## Build wheel, source distribution and chart into dist/; the same files give the same bytes
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation
	@$(BIN)/python scripts/release.py chart

image: ## Build the image from pinned base images: IMAGE=registry.example/formulary:0.1.0
	$(PYTHON) scripts/image.py build $(IMAGE)

base-images: ## Read the digests of the base images and write requirements/images.json
	$(PYTHON) scripts/image.py lock

lock: ## Resolve the dependencies and write requirements/*.txt; UPGRADE=1 takes newer versions
	$(PYTHON) scripts/lock.py $(if $(UPGRADE),--upgrade)

platforms: ## Find out where Formulary installs without compiling
	$(PYTHON) scripts/platforms.py

clean: ## Remove what was installed and built here
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
