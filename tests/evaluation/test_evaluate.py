"""Evaluation of whole logs: known truths, policies of every kind, diagnostics before numbers."""

import numpy as np
import polars as pl
import pytest
from evaluation.shop import QUICK, by_age

from treebandit import LinUCB
from treebandit.errors import EvidenceError, InputError, LogError, ParameterError
from treebandit.evaluation import DecisionLog, evaluate, shop_log, shop_value
from treebandit.evaluation.batches import ArmCodes, flat_batches
from treebandit.evaluation.propensities import EstimatedPropensities
from treebandit.trees import HistogramForest

ALL = ("ips", "clipped-ips", "snips", "dm", "dr", "sndr", "switch-dr", "shrinkage-dr")


def test_all_estimators_find_the_truth(log):
    policies = {"uniform": "uniform", "biased": "logging", "arm:water": "arm:water", "by age": by_age}
    found = evaluate(log, policies, estimators=ALL, reward_model=QUICK)
    for name, policy in policies.items():
        truth = shop_value(by_age if policy is by_age else name)
        for estimator in ALL:
            estimate = found[name][estimator]
            # The direct method is as biased as its model, and its interval does not know.
            reach = 0.04 if estimator == "dm" else 3.5 * estimate.error
            assert abs(estimate.value - truth) < reach, (name, estimator)
    assert found["by age"].diagnostics.support == 1
    assert found.warnings() == []


def test_the_logging_policy_is_worth_the_mean_reward(log):
    found = evaluate(log, ["logging"], estimators=ALL, reward_model=QUICK)["logging"]
    mean = log.frame.select(pl.col("reward").mean()).collect().item()
    assert [found[name].value for name in ALL if name != "dm"] == pytest.approx([mean] * 7, rel=1e-5)
    assert found.diagnostics.effective == pytest.approx(6_000)


def test_any_of_our_agents_can_be_the_reward_model(log):
    found = evaluate(log, ["uniform"], estimators=("dr",), reward_model=LinUCB())["uniform"]["dr"]
    assert found.value == pytest.approx(shop_value("uniform"), abs=0.03)
    taught = LinUCB()
    taught.learn(np.zeros((2, 3)), [0.0, 1.0])
    with pytest.raises(ParameterError, match="has learned or decided already"):
        evaluate(log, ["uniform"], estimators=("dr",), reward_model=taught)


def test_predictions_are_cross_fitted(log):
    """A model that has seen its own decisions would find no error at all in noise."""
    frame = log.frame.with_columns(
        reward=pl.Series(np.random.default_rng(0).random(6_000)),
        context=pl.concat_str(pl.lit('{"x":'), pl.int_range(pl.len()), pl.lit("}")),
    )
    deep = HistogramForest(n_trees=5, max_depth=None, min_samples_leaf=2)
    sample = evaluate(DecisionLog.from_frame(frame), ["uniform"], estimators=("dr",), reward_model=deep)[
        "uniform"
    ].sample
    assert np.corrcoef(sample.reward, sample.chosen)[0, 1] < 0.1


def test_not_enough_evidence_is_the_answer_below_an_effective_sample_size_of_30():
    log = shop_log(120, seed=0)
    found = evaluate(log, ["arm:water", "uniform"], estimators=("ips",))
    refused = found["arm:water"]
    assert refused.estimates == {}
    assert "not enough evidence: 120 decisions are worth" in refused.refusal
    assert "Needed: about" in refused.refusal
    with pytest.raises(EvidenceError, match="anyway=True shows the number"):
        refused["ips"]
    shown = evaluate(log, ["arm:water"], estimators=("ips",), anyway=True)["arm:water"]
    assert np.isfinite(shown["ips"].value)
    assert shown.refusal == refused.refusal


def test_arms_that_were_never_logged_give_no_evidence(log):
    frame = log.frame.filter(pl.col("chosen").list.first() != 2)
    refused = evaluate(DecisionLog.from_frame(frame), ["arm:water"], estimators=("ips",))["arm:water"]
    assert "the log never chose what this policy would" in refused.refusal


def test_decisions_that_do_not_offer_the_arm_are_left_out(log):
    arms = (
        pl.when(pl.int_range(pl.len()) % 2 == 0)
        .then(pl.lit(["coffee", "tea", "water"]))
        .otherwise(pl.lit(["coffee", "tea", "juice"]))
    )
    found = evaluate(
        DecisionLog.from_frame(log.frame.with_columns(arms=arms)), ["arm:water"], estimators=("ips",)
    )
    diagnostics = found["arm:water"].diagnostics
    assert (diagnostics.decisions, diagnostics.left_out) == (3_000, 3_000)
    assert found["arm:water"]["ips"].value == pytest.approx(0.15, abs=0.06)
    assert "3,000 decisions are left out" in diagnostics.warnings()[0]


def test_missing_probabilities_are_estimated_loudly_and_near_the_true_ones(log):
    blind = shop_log(6_000, seed=5, probabilities=False)
    found = evaluate(blind, ["uniform"], estimators=("snips",))
    assert found.notes[0].startswith("PROBABILITIES ARE ESTIMATED: 6,000 of 6,000")
    assert found["uniform"]["snips"].value == pytest.approx(shop_value("uniform"), abs=0.03)
    codes = ArmCodes()
    guess = EstimatedPropensities.learned(blind, codes)
    for batch in flat_batches(log, codes, columns=("context", "arm_contexts")):
        guessed = guess.probabilities(batch)
        assert batch.sums(guessed) == pytest.approx(np.ones(len(batch)))
        assert np.abs(guessed - batch.marginals).mean() < 0.03


def test_decisions_without_rewards_are_left_out_or_count_as_told(log):
    frame = log.frame.with_columns(reward=pl.when(pl.col("reward") > 0).then("reward"))
    waiting = DecisionLog.from_frame(frame)
    found = evaluate(waiting, ["logging"], estimators=("ips",))
    assert found["logging"]["ips"].value == 1
    assert "have no reward and are left out" in found.notes[0]
    filled = evaluate(waiting, ["logging"], estimators=("ips",), missing_reward=0.0)
    assert filled["logging"]["ips"].value == pytest.approx(0.2, abs=0.02)
    with pytest.raises(LogError, match="no decision with a reward"):
        evaluate(DecisionLog.from_frame(frame.with_columns(reward=None)), ["logging"])


def top_two(n, seed):
    """A log of pairs out of four rows, drawn alike, and the mean reward of each row."""
    random = np.random.default_rng(seed)
    means = np.array([0.1, 0.2, 0.3, 0.4])
    chosen = np.array([random.permutation(4)[:2] for _ in range(n)])
    rewards = (random.random((n, 2)) < means[chosen]).astype(float)
    records = [
        {
            "id": str(place),
            "arms": ["a", "b", "c", "d"],
            "chosen": rows.tolist(),
            "probability": 1 / 6,
            "probabilities": [0.5] * 4,
            "rewards": pair.tolist(),
            "reward": float(pair.sum()),
        }
        for place, (rows, pair) in enumerate(zip(chosen, rewards, strict=True))
    ]
    return DecisionLog.from_records(records)


def test_sets_are_evaluated_on_their_marginals():
    log = top_two(3_000, 0)
    found = evaluate(log, {"uniform": "uniform", "best": lambda *_: [0, 0, 1, 1]}, estimators=("ips",))
    assert found["uniform"]["ips"].value == pytest.approx(0.5, abs=0.03)
    assert found["best"]["ips"].value == pytest.approx(0.7, abs=0.06)
    assert "does not depend on which others are chosen" in found.notes[0]
    with pytest.raises(ParameterError, match="use ips"):
        evaluate(log, ["uniform"], estimators=("dr",))
    only_sums = DecisionLog.from_frame(log.frame.with_columns(rewards=None))
    with pytest.raises(LogError, match="log `rewards`, one per chosen row"):
        evaluate(only_sums, ["uniform"], estimators=("ips",))


def test_differences_of_policies_on_one_log_are_paired(log):
    found = evaluate(log, ["uniform", "logging"], estimators=("snips",))
    difference = found.difference("logging", "uniform")
    assert difference.value == pytest.approx(shop_value("biased") - shop_value("uniform"), abs=0.04)
    assert difference.interval.low > 0


def test_policies_of_different_decisions_are_not_compared(log):
    """Half of the decisions offer water, the other half juice: as many, but not the same."""
    arms = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit(["coffee", "tea", "water"]))
    halves = log.frame.with_columns(arms=arms.otherwise(pl.lit(["coffee", "tea", "juice"])))
    found = evaluate(
        DecisionLog.from_frame(halves), ["arm:water", "arm:juice", "arm:tea"], estimators=("snips",)
    )
    with pytest.raises(ParameterError, match="3,000 and 3,000 decisions, of which 0 are the same"):
        found.difference("arm:water", "arm:juice")
    with pytest.raises(ParameterError, match="3,000 and 6,000 decisions, of which 3,000 are the same"):
        found.difference("arm:water", "arm:tea")


def test_sets_without_rewards_count_as_told():
    frame = top_two(3_000, 2).frame.with_columns(pl.int_range(pl.len()).alias("n"))
    waiting = DecisionLog.from_frame(
        frame.with_columns(
            pl.when(pl.col("n") % 2 == 0).then(name).alias(name) for name in ("reward", "rewards")
        )
    )
    half = evaluate(waiting, ["uniform", "logging"], estimators=("ips",), missing_reward=0)
    assert half["uniform"]["ips"].value == pytest.approx(0.25, abs=0.03)
    more = evaluate(waiting, ["uniform", "logging"], estimators=("ips",), missing_reward=2)
    assert more["uniform"]["ips"].value == pytest.approx(1.25, abs=0.03)
    for found in (half, more):
        assert found["uniform"]["ips"].value == pytest.approx(found["logging"]["ips"].value)


def test_time_uniform_intervals_of_sets_take_the_range_of_their_sums():
    policies = {"best": lambda *_: [0, 0, 1, 1], "arm:d": "arm:d"}
    settings = {"estimators": ("ips",), "interval": "time-uniform"}
    found = evaluate(top_two(3_000, 3), policies, reward_range=(0.0, 2.0), **settings)
    for name, truth in (("best", 0.7), ("arm:d", 0.4)):
        policy = found[name]
        assert policy["ips"].interval.holds(truth)
        assert policy["ips"].interval.high < truth + 0.3
        assert policy.sample.weight.mean() == pytest.approx(1, abs=0.05)
        assert (policy.sample.weight * policy.sample.reward).mean() == pytest.approx(policy["ips"].value)
    with pytest.raises(ParameterError, match="the log holds rewards from 0 to 2"):
        evaluate(top_two(3_000, 3), policies, reward_range=(0.0, 1.0), **settings)


def test_an_arm_in_sets_is_judged_on_the_decisions_that_offer_it():
    frame = top_two(4_000, 1).frame
    arms = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit(["a", "b", "c", "d"]))
    log = DecisionLog.from_frame(frame.with_columns(arms=arms.otherwise(pl.lit(["a", "b", "c", "e"]))))
    found = evaluate(log, ["arm:d", "arm:a"], estimators=("ips",))
    assert found["arm:d"].diagnostics.left_out == 2_000
    for name, mean in (("arm:d", 0.4), ("arm:a", 0.1)):
        assert found[name]["ips"].interval.holds(mean)
        assert found[name].diagnostics.mean_weight == pytest.approx(1, abs=0.05)
        assert found[name].diagnostics.expected_effective == pytest.approx(
            found[name].diagnostics.effective, rel=0.1
        )


@pytest.mark.parametrize("interval", ["normal", "bootstrap", "time-uniform"])
def test_intervals_of_every_kind(log, interval):
    found = evaluate(log, ["uniform"], estimators=("ips", "snips"), interval=interval)["uniform"]
    limits = found["ips"].interval
    assert limits.holds(shop_value("uniform"))
    assert limits.high - limits.low < 0.2
    assert (found["snips"].as_dict()["low"] is None) == (interval == "time-uniform")


def test_a_function_may_change_the_context_that_it_is_given():
    record = {"arms": ["a", "b"], "chosen": [0], "probability": 0.5, "reward": 1.0, "context": {"hour": 9}}
    log = DecisionLog.from_records([{**record, "id": str(number)} for number in range(40)])
    popping = {"popping": lambda context, arms, own: [1, 0] if context.pop("hour") == 9 else [0, 1]}
    assert evaluate(log, popping, estimators=("snips",), anyway=True)["popping"]["snips"].value == 1.0


def test_functions_must_give_probabilities(log):
    for given in ([0.5, 0.5], [0.5, 0.6, 0.2], [np.nan, 0, 1], "text", [-0.5, 1, 0.5]):
        with pytest.raises(InputError, match="give one probability per candidate"):
            evaluate(log, {"bad": lambda *_, given=given: given}, estimators=("ips",))


@pytest.mark.parametrize(
    ("policies", "settings", "message"),
    [
        ([], {}, "no policy"),
        (["unifrom"], {}, "did you mean 'uniform'"),
        (["uniform", "uniform"], {}, "same name"),
        ([3], {}, "policy 3"),
        (["uniform"], {"estimators": ("magic",)}, "'magic' is not known"),
        (["uniform"], {"estimators": "ips"}, "give a list"),
        (["uniform"], {"interval": "exact"}, "interval is 'exact'"),
        (["uniform"], {"level": 1.5}, "level is 1.5"),
        (["uniform"], {"folds": 1, "estimators": ("dr",)}, "folds is 1"),
        (["uniform"], {"estimators": ("dr",), "reward_model": 3}, "reward_model is 3"),
    ],
)
def test_mistakes_are_told(log, policies, settings, message):
    with pytest.raises(ParameterError, match=message):
        evaluate(log, policies, **settings)


def test_results_become_json(log):
    import json

    found = evaluate(log, ["uniform", "arm:water"], estimators=("ips", "dr"), reward_model=QUICK).as_dict()
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again["policies"][0]["estimates"]["ips"].keys() == {"value", "standard_error", "low", "high"}
    assert again["decisions"] == 6_000


def test_the_same_seed_gives_the_same_numbers(log):
    first, second = (
        evaluate(log, ["uniform"], estimators=("dr",), reward_model=QUICK, interval="bootstrap")
        for _ in range(2)
    )
    assert first.as_dict() == second.as_dict()


def test_a_handful_of_decisions_is_refused_not_an_error():
    found = evaluate(shop_log(6, seed=0), ["uniform", "logging"])
    assert all("not enough evidence" in policy.refusal for policy in found.policies)


def test_tiny_probabilities_do_not_overflow(log):
    frame = log.frame.with_columns(
        probability=pl.when(pl.int_range(pl.len()) == 3).then(1e-300).otherwise("probability"),
        probabilities=None,
    )
    found = evaluate(DecisionLog.from_frame(frame), ["uniform"], estimators=("ips", "snips"))["uniform"]
    assert found.diagnostics.effective == pytest.approx(1)
    assert "not enough evidence" in found.refusal


def test_contexts_of_every_shape_reach_the_reward_model():
    records = list(shop_log(300, seed=0).records())
    contexts = [
        {
            "deep": {"a": 1, "b": {"c": "x"}},
            "tags": ["red", "new"],
            "sizes": [1, 2.5],
            "flag": True,
            "none": None,
        },
        {"deep": {"a": 2}, "tags": [], "sizes": [3], "flag": False},
        {},
        {"mixed": 1},
        {"mixed": "one"},
    ]
    for place, record in enumerate(records):
        record["context"] = contexts[place % len(contexts)]
        record["arm_contexts"] = [{"price": place % 4}, None, {"price": 1.5, "kind": "hot"}]
    found = evaluate(DecisionLog.from_records(records), ["uniform"], estimators=("dr",), reward_model=QUICK)
    assert np.isfinite(found["uniform"]["dr"].value)
    for record in records:
        record["context"] = [1.0, None, 3.0]
        record["arms"] = None
        record["arm_contexts"] = [[1], [2], [3]]
    found = evaluate(DecisionLog.from_records(records), ["uniform"], estimators=("dr",), reward_model=QUICK)
    assert np.isfinite(found["uniform"]["dr"].value)
    with pytest.raises(LogError, match="does not name its arms"):
        evaluate(DecisionLog.from_records(records), ["arm:tea"], estimators=("ips",))


def test_arms_that_no_decision_offers_are_named(log):
    found = evaluate(log, ["arm:cofee"], estimators=("ips",))
    assert (
        "No decision offers the arm 'cofee'; did you mean 'coffee'? there are 'coffee', 'tea', 'water'."
        in found.notes
    )


def test_what_intervals_assume_is_said(log):
    found = evaluate(log, ["uniform"], estimators=("ips", "dm"), interval="time-uniform")
    assert any("reward_range" in note for note in found.notes)
    assert any("dm does not count" in note for note in found.notes)
    known = evaluate(log, ["uniform"], estimators=("ips",), interval="time-uniform", reward_range=(0.0, 1.0))
    assert known.notes == []


def test_the_log_is_described_in_words(log):
    told = evaluate(log, ["uniform"], estimators=("ips",)).log.facts()
    assert "standard errors at most" in told[0]
    assert told[1].startswith("drift of the logging policy ")
    chosen_only = DecisionLog(log.frame.with_columns(probabilities=pl.lit(None, pl.List(pl.Float64))))
    assert "unknown" in evaluate(chosen_only, ["uniform"], estimators=("ips",)).log.facts()[0]
