OPENPI_VENV := .venv-openpi
OPENPI_READY := $(OPENPI_VENV)/.ready

$(OPENPI_READY): requirements/openpi.txt make/openpi.mk
	$(PYTHON) -m venv --clear $(OPENPI_VENV)
	$(OPENPI_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement requirements/openpi.txt
	@touch $@

openpi-env: $(OPENPI_READY)  ## Make the environment with openpi's own client

test-openpi: $(READY) $(OPENPI_READY)  ## Run the tests in which openpi's own client talks to the proxy
	OPENPI_PYTHON=$(OPENPI_VENV)/bin/python $(BIN)/pytest -q -m openpi tests/openpi

bench-proxy: $(READY)  ## Measure what the proxy adds to a request, and 20,000 requests and 100,000 malformed messages through it
	test -e runs/proxy/demonstrations.npz || $(BIN)/sup collect aloha/insertion --episodes 20 --out runs/proxy/demonstrations.npz
	test -e runs/proxy/my.patch || $(BIN)/sup train runs/proxy/demonstrations.npz --robot aloha --out runs/proxy/my.patch
	$(BIN)/python benchmarks/proxy_latency.py --patch runs/proxy/my.patch --data runs/proxy/demonstrations.npz \
		--out benchmarks/results/proxy_latency
	$(BIN)/python benchmarks/proxy_endurance.py --patch runs/proxy/my.patch --data runs/proxy/demonstrations.npz \
		--out benchmarks/results/proxy_endurance.json
	PYTHONPATH=tests $(BIN)/python -m serve.wire_fuzz --inputs 200000 --out benchmarks/results/wire_fuzz.json

.PHONY: openpi-env test-openpi bench-proxy
