# make test       everything that must hold: lint, types, directions, tests
# make benchmark  a first result: the quick study, its table and its page
# make fuzz       hostile files and inputs, CASES of each kind
# make bench      speed, printed as ratios measured in one run

PYTHON ?= python3
BIN := .venv/bin
EXTRAS := xgboost-cpu,lightgbm,neural,experiments,service,cluster,roads,dev
STAMP := .venv/.installed

CASES ?= 20000
SEED ?= 0

.PHONY: test benchmark fuzz bench install clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $(STAMP)

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

benchmark: $(STAMP)
	$(BIN)/treebandit run quick --into results/quick
	$(BIN)/treebandit report results/quick --html results/quick/report.html

fuzz: $(STAMP)
	@failed=0; for harness in tests/fuzz/fuzz_*.py; do \
		echo "$$harness $(CASES) $(SEED)"; PYTHONPATH=tests $(BIN)/python $$harness $(CASES) $(SEED) || failed=1; \
	done; exit $$failed

bench: $(STAMP)
	$(BIN)/python benchmarks/speed.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
