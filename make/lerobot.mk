LEROBOT_VENV := .venv-lerobot
LEROBOT_READY := $(LEROBOT_VENV)/.ready

$(LEROBOT_READY): requirements/lerobot.txt make/lerobot.mk
	$(PYTHON) -m venv --clear $(LEROBOT_VENV)
	$(LEROBOT_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement requirements/lerobot.txt
	$(LEROBOT_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps torchvision==0.28.0 lerobot==0.4.4
	@touch $@

lerobot-env: $(LEROBOT_READY)  ## Make the environment that trains and exports the base policies with LeRobot

test-lerobot: $(LEROBOT_READY)  ## Run the tests that need the real LeRobot
	PYTHONPATH=src $(LEROBOT_VENV)/bin/python -m pytest -q -m lerobot tests/lerobot

.PHONY: lerobot-env test-lerobot
