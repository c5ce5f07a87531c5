"""Diagnostics: which logs tell enough of a policy, and what is doubtful in a log."""

import numpy as np
import polars as pl
import pytest
from evaluation.shop import QUICK, by_age

from treebandit.evaluation import DecisionLog, LogDiagnostics, evaluate, shop_log


def test_arms_of_probability_zero_are_told_as_missing_support(log):
    frame = log.frame.with_columns(
        probabilities=pl.when(pl.col("chosen").list.first() == 0)
        .then(pl.lit([0.9, 0.1, 0.0]))
        .otherwise(pl.col("probabilities")),
        probability=pl.when(pl.col("chosen").list.first() == 0).then(0.9).otherwise(pl.col("probability")),
    )
    found = evaluate(DecisionLog.from_frame(frame), ["uniform"], estimators=("ips",))["uniform"]
    assert 0.1 < found.diagnostics.support < 0.9
    assert found.diagnostics.covered == pytest.approx((found.diagnostics.support + 2) / 3)
    assert any("probability 0 in the log" in text for text in found.diagnostics.warnings())


def always(probability, n=2_000, seed=0, **columns):
    """A log of two arms that always tells the same probability of its choice; the second arm is better."""
    random = np.random.default_rng(seed)
    chosen = random.integers(0, 2, n)
    told = {"probability": [probability] * n, **columns}
    frame = {
        "id": [str(i) for i in range(n)],
        "arms": [["a", "b"]] * n,
        "chosen": chosen,
        "reward": chosen + 0.5,
    }
    return DecisionLog.from_frame(pl.DataFrame({**frame, **told}))


def test_a_control_group_with_one_arm_is_left_out_for_other_policies():
    random, n = np.random.default_rng(4), 3_000
    control, chosen = random.random(n) < 0.2, random.integers(0, 2, n)
    chosen = np.where(control, 0, chosen)
    told = np.where(control[:, None], [1.0, 0.0], [0.5, 0.5])
    held = always(1.0, n=n, chosen=chosen, reward=chosen + 0.5, holdout=control)
    frame = held.frame.with_columns(
        probabilities=pl.Series(told.tolist()), probability=pl.Series(told[np.arange(n), chosen])
    )
    found = evaluate(DecisionLog.from_frame(frame.collect()), ["uniform", "arm:b"], estimators=("ips",))
    assert found["uniform"]["ips"].value == pytest.approx(1.0, abs=0.08)
    assert found["arm:b"]["ips"].value == pytest.approx(1.5, abs=0.12)
    assert f"{control.sum():,} decisions of a holdout" in found.notes[0]
    alone = evaluate(DecisionLog.from_frame(frame.collect()), ["logging"], estimators=("ips",))
    assert alone.used == n


def test_a_log_without_support_gives_no_numbers():
    """Every decision was certain: what the policy plays in the other half is not in the log."""
    random = np.random.default_rng(0)
    chosen = random.integers(0, 2, 2_000)
    certain = always(1.0, probabilities=[[1.0 - each, float(each)] for each in chosen])
    found = evaluate(certain, ["uniform", "arm:b", "logging"], estimators=("ips",))
    assert found["uniform"].diagnostics.covered == 0.5
    for name in ("uniform", "arm:b"):
        assert "of what this policy plays had probability 0 in the log" in found[name].refusal
    assert found["logging"].refusal is None
    unknown = evaluate(always(1.0), ["uniform"], estimators=("ips",))["uniform"]
    assert unknown.diagnostics.covered is None
    assert "the mean weight is 0.50 ± 0.00" in unknown.refusal


def test_a_little_missing_support_is_told_and_answered():
    random = np.random.default_rng(1)
    rare = random.random(4_000) < 0.1
    told = [[1.0, 0.0] if each else [0.5, 0.5] for each in rare]
    chosen = np.where(rare, 0, random.integers(0, 2, 4_000))
    frame = {
        "id": [str(i) for i in range(4_000)],
        "arms": [["a", "b"]] * 4_000,
        "chosen": chosen,
        "reward": 1.0,
    }
    log = DecisionLog.from_frame(
        pl.DataFrame({**frame, "probability": np.where(rare, 1.0, 0.5), "probabilities": told})
    )
    found = evaluate(log, ["uniform"], estimators=("ips",))["uniform"]
    assert found.diagnostics.covered == pytest.approx(0.95, abs=0.01)
    assert found.refusal is None
    assert "probability 0 in the log" in found.diagnostics.warnings()[0]


@pytest.mark.parametrize(("told", "answered"), [(0.9, False), (0.44, False), (0.52, True), (0.5, True)])
def test_probabilities_that_are_wrong_by_more_than_a_tenth_give_no_numbers(told, answered):
    found = evaluate(always(told), ["uniform"], estimators=("ips",))["uniform"]
    assert (found.refusal is None) == answered
    # A few decisions whose probabilities are guessed change nothing of that.
    known = pl.when(pl.int_range(pl.len()) >= 20).then("probability").alias("probability")
    few = DecisionLog.from_frame(always(told).frame.with_columns(known))
    few_guessed = evaluate(few, ["uniform"], estimators=("ips",))["uniform"]
    assert (few_guessed.refusal is None) == answered
    assert answered or "its probabilities are not true" in found.refusal


def test_what_a_policy_cannot_decide_counts_neither_as_support_nor_in_the_sample_size_to_expect(log):
    arms = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit(["coffee", "tea", "water"]))
    half = log.frame.with_columns(arms=arms.otherwise(pl.lit(["coffee", "tea", "juice"])))
    kept = half.filter(pl.col("arms").list.contains("water"))
    both = (
        evaluate(DecisionLog.from_frame(each), ["arm:water"], estimators=("ips",)) for each in (half, kept)
    )
    whole, part = (each["arm:water"].diagnostics for each in both)
    assert (whole.expected_effective, whole.support) == (pytest.approx(part.expected_effective), part.support)


def test_decisions_without_all_probabilities_are_taken_to_be_like_the_others(log):
    known = pl.when(pl.int_range(pl.len()) % 2 == 0).then("probabilities")
    found = evaluate(
        DecisionLog.from_frame(log.frame.with_columns(probabilities=known)), ["uniform"], estimators=("ips",)
    )
    whole = evaluate(log, ["uniform"], estimators=("ips",))["uniform"].diagnostics
    assert found["uniform"].diagnostics.expected_effective == pytest.approx(
        whole.expected_effective, rel=0.05
    )


def test_wrong_probabilities_are_seen_in_calibration_and_mean_weight(log):
    lie = [0.2, 0.2, 0.6]
    frame = log.frame.with_columns(
        probabilities=pl.lit(lie),
        probability=pl.lit(pl.Series([lie])).first().list.get(pl.col("chosen").list.first()),
    )
    found = evaluate(DecisionLog.from_frame(frame), ["uniform"], estimators=("ips",))
    assert any("not calibrated" in text for text in found.warnings())
    assert any("mean weight is" in text for text in found["uniform"].diagnostics.warnings())


def test_a_logging_policy_that_changed_is_told(log):
    first, second = shop_log(3_000, seed=1), shop_log(3_000, policy="uniform", seed=2)
    frame = pl.concat([first.frame, second.frame.with_columns(id=pl.col("id") + "-2")])
    found = evaluate(DecisionLog.from_frame(frame), ["uniform"], estimators=("ips",))
    assert found.log.drift > 0.1
    assert any("the logging policy changed" in text for text in found.warnings())
    assert evaluate(log, ["uniform"], estimators=("ips",)).log.drift < 0.05


@pytest.mark.parametrize(("size", "arms"), [(100, 2), (500, 2), (1_000, 10), (10_000, 40)])
def test_one_of_a_hundred_stationary_logs_at_most_seems_to_change(size, arms):
    random = np.random.default_rng(size)
    parts = random.multinomial(size // 10, np.full(arms, 1 / arms), (500, 10)).astype(float)
    alarms = sum(bool(LogDiagnostics(size, shares=shares).warnings()) for shares in parts)
    assert alarms <= 5


def test_a_short_log_whose_policy_changed_is_told():
    shares = np.array([[50.0, 0.0]] * 8 + [[0.0, 50.0]] * 2)
    assert "the logging policy changed" in LogDiagnostics(500, shares=shares).warnings()[0]


def test_decisions_of_great_weight_that_are_still_to_come_are_missed():
    """Water was never shown: what was found looks even, and the logged probabilities tell that it is not all."""
    lucky = shop_log(130, seed=0).frame.filter(pl.col("chosen").list.first() != 2)
    half = {"half water": lambda context, *_: [0.5, 0, 0.5] if context["hour"] < 12 else [0, 0.5, 0.5]}
    found = evaluate(DecisionLog.from_frame(lucky), half, estimators=("ips",))["half water"]
    assert found.diagnostics.effective > 30 > found.diagnostics.expected_effective
    assert "decisions of great weight are still to come" in found.refusal
    # Where only the chosen arm's probability was logged, the mean weight alone can tell.
    blind = DecisionLog.from_frame(lucky.with_columns(probabilities=None))
    unknown = evaluate(blind, half, estimators=("ips",))["half water"].diagnostics
    assert unknown.expected_effective is None
    assert any("mean weight" in text for text in unknown.warnings())
    mostly = {"mostly water": lambda context, *_: [0.3, 0, 0.7] if context["hour"] < 12 else [0, 0.3, 0.7]}
    assert "the mean weight is 0.3" in evaluate(blind, mostly, estimators=("ips",))["mostly water"].refusal


def test_the_sample_size_to_expect_is_the_one_found_in_the_long_run(log):
    found = evaluate(log, {"uniform": "uniform", "by age": by_age}, estimators=("ips",))
    for policy in found.policies:
        assert policy.diagnostics.expected_effective == pytest.approx(policy.diagnostics.effective, rel=0.1)
    modelled = evaluate(log, ["uniform"], estimators=("dr",), reward_model=QUICK)["uniform"].diagnostics
    assert modelled.expected_effective == pytest.approx(found["uniform"].diagnostics.expected_effective)
