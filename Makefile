# make test       what must hold: lint, types, directions, tests
# make test-slow  the tests marked slow
# make benchmark  a first result: the quick study, its table and its page
# make fuzz       hostile files and inputs, CASES of each kind
# make dist       sdist and wheel under dist/, tried in an empty environment
# make bench      speed, printed as ratios measured in one run

PYTHON ?= python3
BIN := .venv/bin
EXTRAS := xgboost-cpu,lightgbm,neural,experiments,service,cluster,roads,dev
STAMP := .venv/.installed

CASES ?= 20000
SEED ?= 0

.PHONY: test test-slow benchmark fuzz bench dist install clean

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
	$(BIN)/pytest -m 'not slow'

test-slow: $(STAMP)
	$(BIN)/pytest -m slow

benchmark: $(STAMP)
	$(BIN)/treebandit run quick --into results/quick
	$(BIN)/treebandit report results/quick --html results/quick/report.html

fuzz: $(STAMP)
	@failed=0; for harness in tests/fuzz/fuzz_*.py; do \
		echo "$$harness $(CASES) $(SEED)"; PYTHONPATH=tests $(BIN)/python $$harness $(CASES) $(SEED) || failed=1; \
	done; exit $$failed

dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist . >/dev/null
	$(BIN)/python scripts/try_wheel.py dist

bench: $(STAMP)
	$(BIN)/python benchmarks/speed.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
