"""What the default agent's model makes of how rows come."""

import numpy as np

from treebandit import Bandit, HistogramForest
from treebandit.models import blend


def test_where_choices_are_paths_a_tree_sees_a_bounded_number_of_rows():
    model = Bandit(seed=0).model
    assert model._trees(100_000, 2_000).subsample == 16_384 / 100_000
    assert model._trees(10_000, 500) == model._trees(100_000, 100_000) == model.settings.trees


def test_paths_are_learned_by_trees_of_that_many_rows(monkeypatch):
    monkeypatch.setattr(blend, "_MOST_PATH_ROWS", 100)
    fitted, fit_steps = [], HistogramForest.fit_steps

    def noted(self, features, targets, **options):
        fitted.append((len(targets), round(self.subsample * len(targets))))
        return fit_steps(self, features, targets, **options)

    monkeypatch.setattr(HistogramForest, "fit_steps", noted)
    random = np.random.default_rng(0)
    agent = Bandit(seed=0, arm_encoding="none", random_start="rounds", random_rounds=1)
    for _ in range(20):
        rows = random.normal(size=(20, 3)).astype(np.float32)
        agent.choose(rows)
        agent.learn(rows, rows[:, 0].astype(float))
    assert max(fitted)[0] > 200
    assert all(seen == min(round(0.8 * n), 100) for n, seen in fitted)
