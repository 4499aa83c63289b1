LEROBOT_VENV := .venv-lerobot
LEROBOT_READY := $(LEROBOT_VENV)/.ready
LEROBOT_PLUGIN := plugins/lerobot_policy_speedup_patch

$(LEROBOT_READY): requirements/lerobot.txt make/lerobot.mk $(LEROBOT_PLUGIN)/pyproject.toml
	$(PYTHON) -m venv --clear $(LEROBOT_VENV)
	$(LEROBOT_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement requirements/lerobot.txt
	$(LEROBOT_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps torchvision==0.28.0 lerobot==0.4.4
	$(LEROBOT_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --editable $(LEROBOT_PLUGIN)
	@touch $@

lerobot-env: $(LEROBOT_READY)  ## Make the environment of LeRobot: its tests, and the training of the base policies

test-lerobot: $(LEROBOT_READY)  ## Run the tests that need the real LeRobot
	OMP_NUM_THREADS=1 PYTHONPATH=src $(LEROBOT_VENV)/bin/python -m pytest -q -m lerobot tests/lerobot

.PHONY: lerobot-env test-lerobot
