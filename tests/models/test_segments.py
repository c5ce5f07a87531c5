import numpy as np
import pytest

from treebandit import Bandit, Candidates, Columns, load, play_round
from treebandit.environments import Clicks
from treebandit.errors import SavedFileError
from treebandit.models import linear_scores
from treebandit.models.attribution import Attribution
from treebandit.models.linear_scores import LinearEncoder
from treebandit.models.segments import Segments, segmentations

CATEGORIES = (3, 0, 2, 4)
COLUMNS = Columns(CATEGORIES)


def visitors(n, seed=0, arms=3):
    random = np.random.default_rng(seed)
    codes = [random.integers(max(count, 1), size=n) for count in CATEGORIES]
    codes[1] = random.normal(size=n)
    return Candidates(np.column_stack(codes).astype(np.float32), random.integers(arms, size=n), COLUMNS)


def paid(rows, seed=0, noise=1.0, effect=1.0):
    """Each arm pays something of its own in each combination of the first and third column."""
    random = np.random.default_rng(seed)
    effects = effect * random.normal(size=(3, 2, 8))
    codes = rows.contexts.astype(int)
    return effects[codes[:, 0], codes[:, 2], rows.arms] + noise * random.normal(size=len(rows))


def density(rows, rewards, columns, ratio):
    """Log density of the rewards with their covariance written out, less that without effects."""
    errors = rewards - rewards.mean()
    same = rows.arms[:, None] == rows.arms
    for place in columns:
        same &= rows.contexts[:, place][:, None] == rows.contexts[:, place]
    covariance = np.eye(len(rows)) + ratio * same
    squares = errors @ np.linalg.solve(covariance, errors)
    return -0.5 * (len(rows) * np.log(squares / (errors @ errors)) + np.linalg.slogdet(covariance)[1])


def test_segmentations_are_all_sets_of_two_columns_and_more_while_they_are_few():
    found = segmentations(CATEGORIES, 3)
    assert [tuple(np.flatnonzero(each)) for each in found] == [(0, 2), (0, 3), (2, 3), (0, 2, 3)]
    assert len(segmentations((2,) * 7, 3)) == 21 + 35
    assert len(segmentations((2,) * 11, 3)) == 55
    assert len(segmentations((2,) * 12, 3)) == 0
    assert len(segmentations((60, 60, 2), 3)) == 2
    assert len(segmentations((60, 60, 2), 400)) == 0
    assert len(segmentations((1, 5), 3)) == len(segmentations((0, 0), 3)) == len(segmentations((), 3)) == 0


def test_probabilities_are_those_of_the_densities():
    rows = visitors(300)
    rewards = paid(rows, noise=3.0)
    subsets = [(0, 2), (0, 3), (2, 3), (0, 2, 3)]
    evidences = [max(density(rows, rewards, each, 4.0**j) for j in range(-5, 4)) for each in subsets]
    linear = max(evidences) - 1.5
    weights, others = 0.1 / 4 * np.exp(evidences), 0.9 * np.exp(linear)
    kept = np.sort(weights[weights >= 0.01 * (others + weights.sum())])[::-1]
    assert 1 < len(kept) <= len(subsets)
    segments = Segments.fit(rows, rewards, linear)
    np.testing.assert_allclose(segments.probabilities, kept / (others + kept.sum()), rtol=1e-6)


def test_evidence_beyond_all_exponentials_still_tells_segmentations_apart():
    rows = visitors(6000)
    segments = Segments.fit(rows, paid(rows, noise=0.01), -1e6)
    assert segments.probabilities.tolist() == [1.0]
    assert np.flatnonzero(segments.state()["columns"][0]).tolist() == [0, 2]


def predicted(segments, contexts, arms):
    """Score and leverage beside regressions that say 0.5, with leverage 0.25."""
    scores, leverage = np.full(len(arms), 0.5), np.full(len(arms), 0.25)
    segments.average(contexts, arms, scores, leverage)
    return scores, leverage


def by_hand(segments, seen, rewards, rows):
    """Means and leverage of rows, segment by segment."""
    mean, rest = segments.state()["mean"], 1.0 - segments.probabilities.sum()
    means, leverage = np.full(len(rows), 0.5 * rest), np.full(len(rows), 0.25 * rest)
    members = segments.state()["columns"], segments.ratios, segments.probabilities
    for columns, ratio, probability in zip(*members, strict=True):
        places = np.flatnonzero(columns)
        for i in range(len(rows)):
            same = (seen.contexts[:, places] == rows.contexts[i, places]).all(1) & (seen.arms == rows.arms[i])
            n = same.sum()
            effect = ratio * (rewards[same] - mean).sum() / (1.0 + ratio * n)
            means[i] += probability * (mean + effect)
            leverage[i] += probability * ratio / (1.0 + ratio * n)
    return means, leverage


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_scores_and_leverage_are_the_posterior_row_by_row_or_in_bulk(batch):
    rows = visitors(500)
    rewards = paid(rows)
    segments = Segments.fit(rows[np.arange(400)], rewards[:400], -1.0)
    for start in range(400, 500, batch):
        part = rows[np.arange(start, min(start + batch, 500))]
        commit = segments.prepared_update(part.contexts, part.arms, rewards[start : start + batch])
        commit()
        commit()  # which may be repeated
    asked = visitors(40, seed=1)
    found = predicted(segments, asked.contexts, asked.arms)
    np.testing.assert_allclose(found, by_hand(segments, rows, rewards, asked), atol=1e-12)


def test_categories_that_were_not_seen_are_at_the_prior_and_arms_as_regressions_say():
    rows = visitors(400)
    segments = Segments.fit(rows, paid(rows), -1.0)
    before = segments.sums.copy()
    segments.prepared_update(rows.contexts[:5], np.full(5, 99), np.ones(5))()
    np.testing.assert_array_equal(segments.sums, before)
    rest = 1.0 - segments.probabilities.sum()
    prior = segments.probabilities @ segments.ratios + 0.25 * rest
    contexts = np.array([[0, 0, 0, 0], [7, 0, 7, 7], [np.nan] * 4, [-1, 0, 0.5, 9]], np.float32)
    for each, expected in zip(predicted(segments, contexts[:1], np.array([99])), (0.5, 0.25), strict=True):
        assert each[0] == expected  # as the regressions say
    scores, leverage = predicted(segments, contexts[1:3], np.array([0, 1]))
    np.testing.assert_allclose(leverage, prior)
    np.testing.assert_allclose(scores, (1.0 - rest) * segments.state()["mean"] + 0.5 * rest)
    assert np.isfinite(predicted(segments, contexts[3:], np.array([0]))).all()


def test_regressions_that_are_more_probable_leave_no_segments():
    rows = visitors(400)
    assert Segments.fit(rows, paid(rows), 1e6) is None
    assert Segments.fit(Candidates(rows.contexts[:, [1]], rows.arms, Columns((0,))), paid(rows), -1e6) is None


def test_what_columns_add_is_the_mean():
    rows = visitors(400)
    segments = Segments.fit(rows, paid(rows), -1.0)
    arms = np.where(np.arange(400) < 10, 99, rows.arms)
    none = np.zeros(400)
    regressions = Attribution(np.full(400, 0.2), np.full((400, 5), 0.04), np.full(400, 0.1), none)
    found = segments.attributed(rows.contexts, arms, regressions)
    np.testing.assert_allclose(found.mean, predicted(segments, rows.contexts, arms)[0])
    np.testing.assert_allclose(found.columns[:10], 0.04)
    assert np.ptp(found.columns[10:, [1, 4]]) < 1e-15


def forged(**changes):
    rows = visitors(400)
    state = Segments.fit(rows, paid(rows), -1.0).state()
    return state | {name: change(state[name]) for name, change in changes.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": lambda each: np.zeros_like(each)},
        {"columns": lambda each: np.ones_like(each)},
        {"columns": lambda each: np.repeat(each, 5, 0)},
        {"columns": lambda each: each[:0]},
        {"ratios": lambda each: -each},
        {"ratios": lambda each: each * np.nan},
        {"probabilities": lambda each: each + 1.0},
        {"probabilities": lambda each: -each},
        {"sums": lambda each: each[:, 1:]},
        {"sums": lambda each: each - 1.0},
        {"sums": lambda each: each * 1e300},
        {"sums": lambda each: each + np.array([[0.0], [1e-3]])},
        {"mean": lambda _: 1e308},
        {"arms": lambda each: each[:1].repeat(len(each))},
        {"mean": lambda _: None},
    ],
)
def test_a_forged_state_is_refused(changes):
    with pytest.raises(SavedFileError):
        Segments.restored(forged(**changes), CATEGORIES)


def test_a_state_can_be_taken_up():
    state = forged()
    rows = visitors(400)
    found, expected = (
        predicted(each, rows.contexts, rows.arms)
        for each in (Segments.restored(state, CATEGORIES), Segments.fit(rows, paid(rows), -1.0))
    )
    np.testing.assert_array_equal(found, expected)


def noisy_agent():
    """One that has learned offers which pay by the combination of two columns, under much noise."""
    rows = visitors(4000)
    agent = Bandit(seed=0)
    agent.learn(rows, paid(rows, noise=3.0, effect=0.8))
    return agent, rows


def test_the_agent_finds_combinations_under_noise(tmp_path):
    agent, rows = noisy_agent()
    segments = agent.model.encoder.segments
    assert segments.probabilities[0] > 0.9
    assert np.flatnonzero(segments.state()["columns"][0]).tolist() == [0, 2]
    agent.save(tmp_path / "agent")
    again, asked = load(tmp_path / "agent"), visitors(30, seed=2)
    for each in (agent, again):
        each.learn(rows[np.arange(50)], np.arange(50.0) % 3)
    np.testing.assert_array_equal(agent.score(asked), again.score(asked))
    np.testing.assert_array_equal(agent.estimate(asked).mean, again.estimate(asked).mean)


@pytest.mark.parametrize("worth", [-3.0, 3.0])
def test_an_arm_that_comes_later_is_learned_at_once(worth):
    agent, rows = noisy_agent()
    assert agent.model.encoder.segments is not None
    encoder, asked = agent.model.encoder, rows.contexts[:1]
    for t in range(60):
        agent.learn(rows.contexts[t], worth, arms=[3])
    assert agent.model.encoder is encoder
    means = agent.estimate(Candidates(asked.repeat(4, 0), np.arange(4), COLUMNS)).mean
    assert np.argmax(means * np.sign(worth)) == 3


def test_regressions_that_see_only_some_columns_have_segments_of_these():
    random = np.random.default_rng(0)
    small, large = random.integers(3, size=(1200, 2)), random.integers(66, size=(1200, 1025))
    rows = Candidates(
        np.hstack([small, large]).astype(np.float32),
        random.integers(3, size=1200),
        Columns((3, 3, *[66] * 1025)),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_scores, "screened", lambda *_, **__: None)
        encoder, _ = LinearEncoder.fit(
            rows, (random.random(1200) < 0.05) * 1.0, arm_encoding="auto", random=random
        )
    assert encoder.scored


def test_what_the_agent_explains_adds_up_with_segments():
    agent, rows = noisy_agent()
    asked = rows[np.arange(20)]
    found = agent.model.attribution(asked)
    np.testing.assert_allclose(found.mean, agent.estimate(asked).mean)


def test_plain_rewards_have_no_segments():
    rows = visitors(1000)
    agent = Bandit(seed=0)
    agent.learn(rows, rows.contexts[:, 0] + rows.contexts[:, 2] + 0.1 * paid(rows))
    assert agent.model.encoder.segments is None


@pytest.mark.slow
def test_three_way_clicks_cost_less_than_with_regressions_alone():
    regrets = []
    for segments in (True, False):
        regret = 0.0
        for seed in range(3):
            agent, environment = Bandit(seed=seed), Clicks("three-way", arms=5, highest=0.3, seed=seed)
            with pytest.MonkeyPatch.context() as patch:
                if not segments:
                    patch.setattr(Segments, "fit", lambda *_: None)
                regret += sum(play_round(agent, environment)[1].regret for _ in range(6000))
        regrets.append(regret)
    assert regrets[0] < 0.9 * regrets[1]
