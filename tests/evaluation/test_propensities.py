"""Probabilities that were not logged: learned from the decisions that lack them, and from no others."""

import numpy as np
import polars as pl
import pytest

from treebandit import Uniform
from treebandit.errors import LogError
from treebandit.evaluation import DecisionLog, evaluate, replay

ARMS = ["a", "b", "c"]
MEANS = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])
VALUES = {f"arm:{arm}": float(value) for arm, value in zip(ARMS, MEANS.mean(axis=0), strict=True)}


def decisions(size, chances, random, *, known=True, holdout=False, start=0):
    """chances: (2, 3) probabilities of the arms, by the context."""
    x = random.integers(0, 2, size)
    played = np.array(chances)[x]
    chosen = (random.random((size, 1)) > played.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    probability = played[np.arange(size), chosen] if known else np.full(size, None)
    return pl.DataFrame(
        {
            "id": [str(start + number) for number in range(size)],
            "arms": [ARMS] * size,
            "context": [f'{{"x":{each}}}' for each in x],
            "chosen": chosen.astype(np.int32),
            "probability": pl.Series(probability, dtype=pl.Float64, strict=False),
            "reward": (random.random(size) < MEANS[x, chosen]).astype(float),
            "holdout": [holdout] * size,
        }
    )


def mixed(*parts, seed=0):
    return DecisionLog.from_frame(pl.concat(parts).sample(fraction=1, shuffle=True, seed=seed))


FIRST, SECOND = [[0.9, 0.05, 0.05], [0.05, 0.05, 0.9]], [[0.05, 0.05, 0.9], [0.9, 0.05, 0.05]]


def test_choices_with_a_known_probability_teach_nothing_of_the_others():
    random = np.random.default_rng(0)
    log = mixed(decisions(3_000, FIRST, random), decisions(3_000, SECOND, random, known=False, start=3_000))
    found = evaluate(log, ["arm:a", "arm:c"], estimators=("snips",))
    assert found.notes[0].startswith("PROBABILITIES ARE ESTIMATED: 3,000 of 6,000")
    for policy in found.policies:
        assert policy.diagnostics.mean_weight == pytest.approx(1, abs=0.2)
        assert policy["snips"].value == pytest.approx(VALUES[policy.name], abs=0.05)
        assert policy["snips"].interval.holds(VALUES[policy.name])


def test_a_handful_without_a_probability_is_left_out():
    random = np.random.default_rng(1)
    log = mixed(decisions(500, FIRST, random), decisions(3, SECOND, random, known=False, start=500))
    found = evaluate(log, ["logging", "arm:a"], estimators=("ips", "dr"), anyway=True)
    assert "3 decisions were logged without a probability, too few to estimate it" in found.notes[0]
    assert found["arm:a"].diagnostics.decisions == 500
    assert np.isfinite(found["arm:a"]["dr"].value)
    assert found["logging"].diagnostics.decisions == 503


def held_out(chances, random):
    uniform = [[0.6, 0.3, 0.1]] * 2
    control = decisions(1_000, chances, random, known=False, holdout=True, start=2_000)
    return mixed(decisions(2_000, uniform, random), control)


def test_a_holdout_of_one_arm_is_left_out_without_probabilities_too():
    log = held_out([[0, 0, 1]] * 2, np.random.default_rng(2))
    found = evaluate(log, ["arm:c", "uniform"], estimators=("ips",))
    assert found.notes[0].startswith("1,000 decisions of a holdout")
    assert found["arm:c"].diagnostics.decisions == 2_000
    assert found["arm:c"]["ips"].interval.holds(VALUES["arm:c"])
    assert replay(log, Uniform(seed=0)).seen == 2_000


def test_a_holdout_of_several_arms_without_probabilities_is_none_of_one_arm():
    log = held_out([[0, 0.5, 0.5]] * 2, np.random.default_rng(3))
    assert log.check().control == 0
    with pytest.raises(LogError, match="without a probability"):
        replay(log, Uniform(seed=0))
