"""Each contract of tree learners can fail: classes broken on purpose, each caught by the contract it breaks."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from treebandit.checks import check_tree_learner
from treebandit.errors import CheckError
from treebandit.trees import Forest, RandomForestTrees, XGBoostTrees


@dataclass(frozen=True)
class Sound:
    """A sound learner to break."""

    n_trees: int = 5

    def fit(self, features, targets, *, seed):
        return XGBoostTrees(n_trees=self.n_trees).fit(features, targets, seed=seed)


class Model(Sound):
    def fit(self, features, targets, *, seed):
        return "a model"


class Narrow(Sound):
    def fit(self, features, targets, *, seed):
        return super().fit(features[:, :-1], targets, seed=seed)


class Vain(Sound):
    def fit(self, features, targets, *, seed):
        forest = super().fit(features, targets, seed=seed)
        targets[:] = 0.0
        return forest


class Deaf(Sound):
    def fit(self, features, targets, *, seed):
        return super().fit(features, np.full(len(targets), 9.0), seed=seed)


class Moody(Sound):
    def fit(self, features, targets, *, seed):
        return RandomForestTrees(n_trees=3).fit(
            features, targets, seed=int(np.random.default_rng().integers(2**30))
        )


class Whole(Sound):
    def fit(self, features, targets, *, seed):
        if np.isnan(features).any():
            raise ValueError("no NaN please")
        return super().fit(features, targets, seed=seed)


class Shifted(Sound):
    def fit(self, features, targets, *, seed):
        forest = super().fit(features, targets, seed=seed)
        return replace(forest, base=forest.base + 0.01)


class Lonely(Sound):
    def fit(self, features, targets, *, seed):
        """One tree that sets a single row apart."""
        if len(targets) < 50:
            return super().fit(features, targets, seed=seed)
        cut = np.nanmax(features[:, 0])
        low = np.nanmean(targets)
        return Forest.from_nodes(
            sizes=[3],
            left=[1, -1, -1],
            right=[2, -1, -1],
            feature=[0, 0, 0],
            threshold=[cut, 0, 0],
            missing_left=[True, False, False],
            value=[0.0, low, targets[np.nanargmax(features[:, 0])]],
            n_features=features.shape[1],
        )


class Hollow(Forest):
    """A forest that predicts no numbers."""

    def predict(self, features):
        return super().predict(features) * np.nan


class Unreal(Sound):
    def fit(self, features, targets, *, seed):
        return Hollow(**super().fit(features, targets, seed=seed).state())


class Endless(Sound):
    def fit(self, features, targets, *, seed):
        forest = super().fit(features, targets, seed=seed)
        return replace(forest, values=forest.values * np.nan)


class Crooked(Forest):
    """A forest whose predictions are not the sums of its leaves."""

    def predict(self, features):
        return super().predict(features) * 0.99


class Bent(Sound):
    def fit(self, features, targets, *, seed):
        forest = super().fit(features, targets, seed=seed)
        return Crooked(**forest.state()) if np.var(targets) else forest


def test_sound_learners_pass():
    check_tree_learner(Sound)
    check_tree_learner(Sound(n_trees=2))


@pytest.mark.parametrize(
    ("learner", "seen"),
    [
        (Model, "fit returns a Forest .*, but it returned a str"),
        (Narrow, "the forest has 2 features, not 3"),
        (Vain, "leaves its arrays as they are"),
        (Deaf, "better than their mean does"),
        (Moody, "same seed grows the same trees"),
        (Whole, "'missing_values' ended in ValueError: no NaN please"),
        (Shifted, "grown on equal targets predict them"),
        (Lonely, "one row alone reaches a leaf of tree 0"),
        (Unreal, "one finite number per row"),
        (Endless, "ended in ParameterError: the value of a leaf is"),
        (Bent, "the mean is the forest's prediction"),
    ],
)
def test_broken_learners_are_caught(learner, seen):
    with pytest.raises(CheckError, match=seen) as caught:
        check_tree_learner(learner)
    assert str(caught.value).startswith(f"{learner.__name__}: ")


def test_leaf_statistics_are_measured_against_a_slow_reference(monkeypatch):
    from treebandit.trees import LeafStatistics

    honest = LeafStatistics.estimate

    def doubled(self, features):
        estimate = honest(self, features)
        return replace(estimate, variance=2 * estimate.variance)

    monkeypatch.setattr(LeafStatistics, "estimate", doubled)
    with pytest.raises(CheckError, match="the variance rests on the leaves' own rows, but it is off by"):
        check_tree_learner(Sound)
