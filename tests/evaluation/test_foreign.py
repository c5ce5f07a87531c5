"""Our estimators equal those of obp and vw-estimators on the same inputs (benchmarks/foreign_estimators.py)."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from treebandit.evaluation import Sample, Tuning, contributions

STORED = json.loads((Path(__file__).parent / "foreign.json").read_text())
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "foreign_estimators.py"


def inputs(case):
    spec = importlib.util.spec_from_file_location("foreign_estimators", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.inputs(*case)


@pytest.mark.parametrize("case", STORED["cases"])
@pytest.mark.parametrize("package", STORED["packages"])
def test_estimates_are_those_of_other_packages(package, case):
    action, reward, logged, target, predicted = inputs(STORED["cases"][case])
    rows = np.arange(len(action))
    sample = Sample(
        reward,
        target[rows, action] / logged,
        predicted[rows, action],
        (target * predicted).sum(axis=1),
    )
    tuning = Tuning(**STORED["tuning"])
    for name, value in STORED["packages"][package]["numbers"][case].items():
        assert contributions(name, sample, tuning).mean() == pytest.approx(value, abs=1e-9), name


def test_the_stored_numbers_are_of_the_versions_named_in_the_documentation():
    versions = {name: each["version"] for name, each in STORED["packages"].items()}
    assert versions == {"obp": "0.4.1", "vw-estimators": "0.2.2"}
