LIBERO_VENV := .venv-libero
LIBERO_READY := $(LIBERO_VENV)/.ready
LIBERO_PACK ?= ../shared/libero/assets.tgz
LIBERO_ASSETS := $(LIBERO_VENV)/assets
LIBERO_PYTHON = PYTHONPATH=src $(if $(wildcard $(LIBERO_ASSETS)),SPEEDUP_PATCH_LIBERO_ASSETS=$(abspath $(LIBERO_ASSETS))) $(LIBERO_VENV)/bin/python

$(LIBERO_READY): requirements/libero.txt make/libero.mk
	$(PYTHON) -m venv --clear $(LIBERO_VENV)
	$(LIBERO_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement requirements/libero.txt
	$(LIBERO_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps hf-libero==0.1.4 robosuite==1.4.0 bddl==1.0.1
	test ! -e $(LIBERO_PACK) || { mkdir -p $(LIBERO_ASSETS) && tar -xzf $(LIBERO_PACK) -C $(LIBERO_ASSETS) --strip-components=3 libero/libero/assets; }
	@touch $@

libero-env: $(LIBERO_READY)  ## Make the environment that runs LIBERO's simulator (without LIBERO_PACK it downloads its assets)

test-libero: $(LIBERO_READY)  ## Run the tests that need the real LIBERO
	$(LIBERO_PYTHON) -m pytest -q -m libero tests/libero

libero-experts: $(LIBERO_READY)  ## Measure the scripted experts on 20 scenes of every task
	$(LIBERO_PYTHON) benchmarks/libero_experts.py

.PHONY: libero-env test-libero libero-experts
