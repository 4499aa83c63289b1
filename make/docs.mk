DOCS_READY := $(VENV)/.docs

$(DOCS_READY): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

docs: $(DOCS_READY)  ## Build the documentation into site/, which opens from disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html, or for its search: python3 -m http.server --directory site"

.PHONY: docs
