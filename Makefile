# Every task of the project. `make` alone lists them. Each prepares .venv first and works in a fresh clone.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PY := .venv/bin/python
# More arguments for the program that a task starts, for example: make test-quick ARGS='-k lease -x'
ARGS ?=
# Processes that share a run of the tests; ARGS=-n0 runs all in one, for example for a debugger
WORKERS ?= 2
# Where the demo keeps its metadata: sqlite, postgresql, zookeeper. FAULT=1 breaks its server while epochs are in publish
STORE ?= sqlite
FAULT ?= 0
# Where the demo keeps its tables: local (folders), or s3, an emulator that it starts
WAREHOUSE ?= local
# Days that the demo computes with the package, and as many without, at most 2; empty for all 8
DAYS ?=
# What mypy reads; not dags/: types cannot say that Airflow passes a task its arguments
CODE := airflow_provider demo spark_jobs benchmarks tests/servers tests/simulator

# Spark's workers must run this environment's Python, and listen on this host only
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/.venv/bin/python
export PYSPARK_PYTHON := $(CURDIR)/scripts/worker-python
export SPARK_LOCAL_IP := 127.0.0.1
export PATH := $(CURDIR)/.venv/bin:$(PATH)
unexport SPARK_HOME PYTHONHOME PYTHONPATH VIRTUAL_ENV
# Each of the hundreds of Python processes of a run would compile the project anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: export EPOCHS_STORE := $(STORE)
demo: export EPOCHS_WAREHOUSE := $(WAREHOUSE)
demo: prepare ## Run the cascade with epochs and its naive twin: some 15 minutes on two cores, up to 30 beside other programs (DAYS=2, STORE=postgresql or zookeeper, WAREHOUSE=s3, FAULT=1)
	@$(PY) -m demo run --store '$(STORE)' --warehouse '$(WAREHOUSE)' $(if $(DAYS),--days '$(DAYS)') $(if $(filter-out 0,$(FAULT)),--fault) $(ARGS)

.PHONY: up
up: prepare ## Start the demo's Airflow and keep it running
	@$(PY) -m demo up $(ARGS)

.PHONY: down
down: prepare ## Stop what `make up` started
	@$(PY) -m demo down $(ARGS)

.PHONY: test
test: prepare lint docs ## Lint, build the docs site, then every tier but the slow one, 14 to 28 minutes
	@$(PY) -m pytest -n $(WORKERS) -m 'not slow' --budgets $(ARGS)

.PHONY: test-quick
test-quick: prepare ## The tiers unit, property (a short simulation) and contract, each once, without servers
	@$(PY) -m pytest tests/unit tests/property tests/contract -n $(WORKERS) \
		-m '(unit or property or contract) and not thorough' -k 'not postgresql and not zookeeper' \
		--hypothesis-profile=quick $(ARGS)

.PHONY: test-slow
test-slow: prepare ## The slow tier and properties with a new seed: kills in every window, tables on S3 and gs:// (needs Go), all stores; then test-versions
	@$(PY) -m pytest -n $(WORKERS) -m 'slow or property' --hypothesis-seed=$$(date +%s) --budgets $(ARGS)
	@$(if $(ARGS),:,$(MAKE) test-versions)

.PHONY: test-versions
test-versions: prepare ## The wheel on each declared version of Airflow and Python; ARGS='--cell airflow-3.1-python-3.11' for one
	@$(PY) -m tests.versions $(ARGS)

.PHONY: bench
bench: prepare ## Measure what the docs say about speed, each store beside bare clients on the same server
	@$(PY) -m benchmarks $(ARGS)

.PHONY: bench-slow
bench-slow: prepare ## Measure what takes long: cuts over 1,000 tables with 10,000 epochs each
	@$(PY) -m benchmarks --slow $(ARGS)

.PHONY: simulate
simulate: prepare ## 300,000 faults against the real coordination, in virtual time; SEEDS=0:200 for others
	@$(PY) -m tests.simulator $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

.PHONY: anomalies
anomalies: prepare ## The named schedules of docs/anomalies.md on every store, and without this package, as one table
	@$(PY) -m tests.anomalies $(ARGS)

.PHONY: mutants
mutants: prepare ## Plant wrong rules in a copy of the code one by one: each must make something fail
	@$(PY) -m tests.mutants $(ARGS)

.PHONY: lint
lint: prepare ## ruff, ruff's formatter, mypy strict, import-linter
	@$(PY) -m ruff check --output-format concise .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy $(CODE)
	@$(PY) -c 'from importlinter.cli import lint_imports_command as run; run()' --no-cache --no-logo

.PHONY: docs
docs: export NO_MKDOCS_2_WARNING := 1
docs: prepare ## Build the docs site into site/, with every link checked
	@$(PY) -m mkdocs build --strict $(if $(filter docs,$(MAKECMDGOALS)),,--quiet)

.PHONY: format
format: prepare ## Let ruff fix and format the code
	@$(PY) -m ruff check --fix-only .
	@$(PY) -m ruff format .

.PHONY: prepare
prepare: ## Check Python and Java, install .venv (every task does it)
	@scripts/prepare

.PHONY: constraints
constraints: ## Resolve setup.cfg anew and rewrite constraints.txt
	@scripts/resolve

.PHONY: clean
clean: ## Remove .venv and everything that the tasks made
	@if [ -x $(PY) ] && [ -d demo ]; then $(PY) -m demo down || true; fi
	@rm -rf .venv .venv-s3 .emulators .versions .jars .demo build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@rm -rf metastore_db spark-warehouse derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
