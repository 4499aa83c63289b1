RLDS_VENV := .venv-rlds
RLDS_READY := $(RLDS_VENV)/.ready
RLDS_FIXTURE := tests/fixtures/rlds

$(RLDS_READY): requirements/rlds.txt make/rlds.mk
	$(PYTHON) -m venv --clear $(RLDS_VENV)
	$(RLDS_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement requirements/rlds.txt
	@touch $@

rlds-env: $(RLDS_READY)  ## Make the environment that writes RLDS data sets with tensorflow-datasets

test-rlds: $(RLDS_READY)  ## Run the tests that need the real tensorflow-datasets
	TF_CPP_MIN_LOG_LEVEL=3 PYTHONPATH=src $(RLDS_VENV)/bin/python -m pytest -q -m rlds tests/rlds

rlds-fixture: $(RLDS_READY)  ## Write the RLDS data sets again that the plain tests read
	rm -rf $(RLDS_FIXTURE)/libero_tiny $(RLDS_FIXTURE)/droid_tiny
	TF_CPP_MIN_LOG_LEVEL=3 $(RLDS_VENV)/bin/python tests/rlds/write_fixture.py $(RLDS_FIXTURE)

.PHONY: rlds-env test-rlds rlds-fixture
