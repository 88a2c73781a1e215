# `make demo` and `make test` do all of the set-up: they need Python 3.11 to 3.14, git and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RESULT := benchmarks/results/$(shell date +%F)

.PHONY: fuzz vscode demo docs test lint soak bench wheels clean

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check axon tests examples benchmarks docs
	$(BIN)/mypy

# Counts that are too large for `make test`, in full; the dated result is committed.
soak: $(STAMP)
	@mkdir -p benchmarks/results
	AXON_SOAK=1 $(BIN)/python -m pytest -n 2 --dist worksteal --durations=20 > $(RESULT)-soak.txt 2>&1; \
	  status=$$?; tail -n 25 $(RESULT)-soak.txt; exit $$status
	$(MAKE) fuzz

# Coverage-guided fuzzing of the parser and the checker, for an hour, or `make fuzz FUZZ=60`; needs Python 3.11 to 3.13 on Linux.
FUZZ ?= 3600
fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fuzz]'
	$(BIN)/python -m tests.fuzz.fuzz_check --seconds $(FUZZ)

bench: $(STAMP)
	@mkdir -p benchmarks/results
	$(BIN)/python benchmarks/check.py | tee $(RESULT)-check.txt
	$(BIN)/python benchmarks/cold.py | tee $(RESULT)-cold.md
	$(BIN)/python benchmarks/lsp.py | tee $(RESULT)-lsp.txt
	$(BIN)/python benchmarks/shapes.py | tee $(RESULT)-shapes.txt

# The documentation as a site: docs/_build/index.html. A warning is an error. Where npm is, programs open in its playground.
NPM := $(shell command -v npm 2>/dev/null)
docs: $(STAMP)
	$(BIN)/sphinx-build -W --keep-going -q $(if $(NPM),-D axon_playground=playground/index.html) docs docs/_build
	$(if $(NPM),$(BIN)/axon playground docs/_build/playground)

# The environment is made once, and again when the dependencies change.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
	  || { echo "Axon needs Python 3.11 to 3.14: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The wheel, tried on every Python that numba takes: installed into an environment of its own, it makes a project, whose tests run.
# `make wheels PYTHONS="python3.13 /opt/python3.12/bin/python3"` chooses; one that is not here is an error.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
wheels: $(STAMP)
	rm -rf dist build/wheels && mkdir -p build/wheels
	$(BIN)/python -I -m build --wheel --outdir dist  # -I: the folder build is not the package
	@set -e; number=0; for python in $(PYTHONS); do \
	  number=$$((number + 1)); place=$(CURDIR)/build/wheels/$$number; \
	  $$python -m venv $$place; \
	  $$place/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl pytest; \
	  (cd $$place && bin/axon new trial 2>/dev/null && cd trial && ../bin/python -m pytest -q -p no:cacheprovider); \
	  echo "$$($$place/bin/python --version): the wheel works, $$(du -sm $$place/lib | cut -f1) MB"; \
	done

# The extension for VS Code: its grammar's tests, then editors/vscode/axon.vsix. Needs Node 18 or later.
vscode:
	cd editors/vscode && npm install --no-audit --no-fund && npm test --silent && npm run --silent package

clean:
	rm -rf $(VENV) build dist docs/_build docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
