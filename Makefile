# Each target sets up .venv by itself: with uv if it is there, else with venv and pip.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install demo test lint bench clean

install: $(STAMP)

$(STAMP): pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) .venv && uv pip install --quiet --python $(BIN)/python -e '.[speed,sklearn,report,demo]' --group dev; \
	else \
	  $(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' && \
	  $(BIN)/python -m pip install --quiet -e '.[speed,sklearn,report,demo]' --group dev; \
	fi
	@touch $(STAMP)

demo: install
	$(BIN)/ddssp demo

test: lint
	$(BIN)/python -m pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	$(BIN)/python benchmarks/moments.py

clean:
	rm -rf .venv ddssp-demo
