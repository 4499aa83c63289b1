# The first that runs, is new enough and can make an environment; a name on the PATH alone may be a shim that leads nowhere.
PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3; do \
	$$each -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$each; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help

help:  ## Show what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python of at least 3.11 with venv was found (Debian: apt-get install python3-venv);" \
		"name one: make setup PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[train,serve,rlds,mujoco,plot,report,video,aloha,dev]'
	@touch $@

setup: $(READY)  ## Make the virtual environment with everything the project needs

demo: $(READY)  ## Collect, train a patch and evaluate it in closed loop on ALOHA insertion
	$(BIN)/sup demo --out runs/demo --overwrite

test: $(READY)  ## Run the tests
	$(BIN)/pytest -n 2 -q

test-browser: $(READY)  ## Run the tests of the report in a real browser (Debian: apt-get install chromium chromium-driver)
	$(BIN)/pytest -q -m browser tests/report

check: $(READY)  ## Lint, check formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove the environments and caches
	rm -rf $(VENV) .venv-* .pytest_cache .ruff_cache .hypothesis

-include make/*.mk

.PHONY: help setup demo test test-browser check format clean
