# make test       what must hold: lint, types, directions, tests
# make test-slow  the tests marked slow
# make benchmark  a first result: the quick study, its table and its page
# make fuzz       hostile files and inputs, CASES of each kind
# make docs       the site under docs/_build/html, warnings as errors; then its links and its console are examined
# make test-oldest  the tests with the oldest versions of all libraries that pyproject.toml allows
# make dist       sdist and wheel under dist/, tried in an empty environment
# make bench      speed, printed as ratios measured in one run

PYTHON ?= python3
BIN := .venv/bin
EXTRAS := xgboost-cpu,lightgbm,neural,bart,experiments,service,cluster,roads,dev
STAMP := .venv/.installed
DOCS_STAMP := .venv/.docs-installed
SITE := docs/_build/html

CASES ?= 20000
SEED ?= 0

.PHONY: test test-slow test-oldest benchmark fuzz bench dist docs install clean

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

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	touch $(DOCS_STAMP)

docs: $(DOCS_STAMP)
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --builder html docs $(SITE)
	PYTHONPATH=tests $(BIN)/python scripts/check_site.py $(SITE)

test-oldest: $(STAMP)
	$(BIN)/python scripts/test_oldest.py

dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist . >/dev/null
	$(BIN)/python scripts/try_wheel.py dist

bench: $(STAMP)
	$(BIN)/python benchmarks/speed.py

clean:
	rm -rf .venv .venv-oldest docs/_build docs/gallery docs/reference/api .mypy_cache .ruff_cache .pytest_cache .hypothesis
