# Each target sets up .venv by itself: with uv if it is there, else with venv and pip. Python 3.11 or newer is all it needs.
PYTHON ?= python3
BIN := .venv/bin

# $(call packages,ARGUMENTS) installs into .venv.
ifneq ($(shell command -v uv 2>/dev/null),)
  create = uv venv --quiet --allow-existing --python $(PYTHON) .venv
  packages = uv pip install --quiet --python $(BIN)/python $(1)
else
  create = $(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
  packages = $(BIN)/python -m pip install --quiet --disable-pip-version-check $(1)
endif

.PHONY: help install demo test lint bench peers audit mutants fuzz faults clean docs explorer screenshots

help:
	@echo 'make demo     release a health survey privately, fit it, compare with the exact regression'
	@echo 'make test     ruff, mypy and all tests'
	@echo 'make lint     ruff and mypy'
	@echo 'make docs     the documentation, into site/'
	@echo 'make explorer build the page of `ddssp report` from explorer/ (needs Node)'
	@echo 'make screenshots  pictures of README and docs (needs Chromium)'
	@echo 'make bench    accuracy and speed of the moments mechanism (needs the paper'"'"'s datasets, DDSSP_DATA)'
	@echo 'make peers    diffprivlib on the same problems, in .venv-peers, into results/ (needs DDSSP_DATA too)'
	@echo 'make audit    attack releases and their twins with 0.7 of the noise; an hour on two cores'
	@echo 'make mutants  plant privacy bugs in a copy of the tree and count those that the tests catch'
	@echo 'make fuzz     a hundred thousand hostile files'
	@echo 'make faults   two hundred kills of a release, a thousand races for the last of a budget'
	@echo 'make install  everything for development, into .venv'
	@echo 'make clean    remove .venv and what the demo left'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is %s: make PYTHON=python3.12" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo 'setting up .venv'
	@$(create)

.venv/.demo: pyproject.toml | $(BIN)/python
	@echo 'installing ddssp and what the demo needs'
	@$(call packages,-e '.[demo]')
	@touch $@

.venv/.dev: pyproject.toml | $(BIN)/python
	@echo 'installing ddssp and the tools for development: a few minutes the first time'
	@$(call packages,-e '.[speed$(comma)sklearn$(comma)report$(comma)demo]' --group dev)
	@touch $@ .venv/.demo

comma := ,

install: .venv/.dev

demo: .venv/.demo
	@$(BIN)/ddssp demo

# Node and Chromium are optional: without them the tests of the page that need them say so and are left out.
explorer/node_modules/.ready: explorer/package-lock.json
	@if command -v npm >/dev/null; then echo 'installing what the explorer page is built with'; \
	  (cd explorer && npm ci --silent && touch node_modules/.ready) || echo 'npm could not install it; some tests will be left out'; fi

explorer: explorer/node_modules/.ready
	cd explorer && npm run --silent check && npm run --silent build

docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

screenshots: .venv/.dev
	$(BIN)/python scripts/screenshots.py docs/images

test: lint explorer/node_modules/.ready
	$(BIN)/python -m pytest -n auto

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.dev
	$(BIN)/python benchmarks/moments.py

# diffprivlib needs an older scikit-learn than the project, hence an environment of its own.
.venv-peers/.ready: pyproject.toml
	@echo 'setting up .venv-peers'
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -e '.[report]' 'diffprivlib==0.6.6' 'scikit-learn<1.7'
	@touch $@

peers: .venv-peers/.ready
	.venv-peers/bin/ddssp reproduce --data $(or $(DDSSP_DATA),../shared/data) -o results --methods diffprivlib

audit: .venv/.dev
	rm -rf build/audit
	$(BIN)/python benchmarks/audit.py

mutants: .venv/.dev
	$(BIN)/python benchmarks/mutants.py

fuzz: .venv/.dev
	$(BIN)/python benchmarks/fuzz.py --fresh

faults: .venv/.dev
	$(BIN)/python benchmarks/faults.py --fresh

clean:
	rm -rf .venv .venv-peers ddssp-demo
