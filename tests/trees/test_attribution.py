"""Attributions against SHAP's numbers (benchmarks/foreign_shap.py), and against Shapley's definition."""

import json
import math
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit import Forest, HistogramForest, LeafStatistics
from treebandit.trees.attribution import attributions
from treebandit.trees.kernels import COUNT, OUTPUT

SHAP = json.loads(Path(__file__).with_name("shap.json").read_text())


@pytest.mark.parametrize("name", ["boosting", "forest"])
def test_attributions_are_those_of_shap(name):
    found = SHAP[name]
    left, right, feature, threshold, missing_left, value, cover = zip(
        *(node for tree in found["nodes"] for node in tree), strict=True
    )
    grown = partial(
        Forest.from_nodes,
        sizes=[len(tree) for tree in found["nodes"]],
        left=left,
        right=right,
        feature=feature,
        threshold=threshold,
        missing_left=missing_left,
        n_features=5,
    )
    forest, counts = grown(value=value, base=found["base"]), grown(value=cover)
    table = np.zeros((len(forest.nodes), 4))
    table[:, OUTPUT], table[:, COUNT] = forest.values, counts.values
    rows = np.array(found["rows"], np.float32)
    np.testing.assert_allclose(forest.predict(rows), found["predicted"], atol=1e-5)
    values, mean = attributions(forest, table, rows)
    np.testing.assert_allclose(values, found["values"], atol=1e-5)
    assert mean == pytest.approx(found["expected"], abs=1e-5)


def grown(seed, n=60, d=3, trees=3):
    random = np.random.default_rng(seed)
    x = np.round(random.normal(size=(n, d)), 1).astype(np.float32)
    x[random.random(x.shape) < 0.1] = np.nan
    y = np.nan_to_num(x[:, 0]) + (x[:, 1] > 0) * np.nan_to_num(x[:, 2])
    return (
        LeafStatistics.measure(HistogramForest(n_trees=trees, max_depth=5).fit(x, y, seed=seed), x, y),
        x,
        y,
    )


@settings(max_examples=25)
@given(
    st.integers(0, 10_000),
    st.lists(st.floats(-3, 3, width=32) | st.just(float("nan")), min_size=3, max_size=3),
)
def test_attributions_add_up_to_the_prediction(seed, row):
    leaves, x, y = grown(seed)
    leaves.update(x[:7], y[:7] + 1.0)  # outputs and counts as they are now, not as they were grown
    rows = np.array([row], np.float32)
    values, mean = attributions(leaves.forest, leaves.table, rows)
    assert mean + values.sum() == pytest.approx(leaves.estimate(rows).mean[0], abs=1e-10)


def test_attributions_are_shapley_values():
    leaves, x, _ = grown(1)
    forest, table = leaves.forest, leaves.table
    bits, step = forest.arrays[3], forest.nodes["step"].astype(int)

    def rows_of(node):
        away = step[node] >> bits
        return rows_of(node + away) + rows_of(node + away + 1) if away else table[node, COUNT]

    def expected(node, row, known):
        away, column = step[node] >> bits, step[node] & ((1 << bits) - 1)
        if not away:
            return table[node, OUTPUT]
        children = node + away, node + away + 1
        if (feature := column % 3) in known:
            value = row[feature]
            right = column >= 3 if np.isnan(value) else value >= forest.nodes["threshold"][node]
            return expected(children[int(right)], row, known)
        return sum(rows_of(child) * expected(child, row, known) for child in children) / rows_of(node)

    def worth(row, known):
        return forest.base + sum(expected(int(start), row, known) for start in forest.starts)

    values, mean = attributions(forest, table, x[:6])
    for row, found in zip(x[:6], values, strict=True):
        assert mean == pytest.approx(worth(row, set()))
        for j in range(3):
            others = [k for k in range(3) if k != j]
            shapley = sum(
                math.factorial(size) * math.factorial(2 - size) / 6
                * (worth(row, {*known, j}) - worth(row, set(known)))
                for size in range(3)
                for known in combinations(others, size)
            )  # fmt: skip
            assert found[j] == pytest.approx(shapley, abs=1e-10)


def test_leaves_that_no_row_reached_share_evenly():
    leaves, x, _ = grown(2)
    table = leaves.table.copy()
    table[:, COUNT] = 0.0
    values, mean = attributions(leaves.forest, table, x[:4])
    np.testing.assert_allclose(mean + values.sum(1), leaves.estimate(x[:4]).mean, atol=1e-10)
