"""The ensemble as a scikit-learn regressor that knows how sure it is."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from treebandit.core import Columns, Estimate, Features, Floats
from treebandit.drift import FIRST_ROWS, LARGEST_ERROR, Adwin, MemoryRule, check_memory, error_window
from treebandit.errors import MissingExtraError, ParameterError
from treebandit.features.reward_scale import RewardScale
from treebandit.features.scaling import ColumnUnits
from treebandit.parameters import check_choice, check_number
from treebandit.steps import exhausted
from treebandit.trees.calibration_fit import FEWEST_ROWS, calibrate_steps
from treebandit.trees.forest import Forest, TreeLearner
from treebandit.trees.growing import grow
from treebandit.trees.leaf_statistics import (
    LeafOutput,
    LeafStatistics,
    StatisticsFrom,
    VarianceKind,
    held_out,
)
from treebandit.trees.limits import check_learner
from treebandit.trees.regressor_inputs import AS_NUMBERS, columns_of, table_of, targets_of
from treebandit.trees.xgboost_trees import XGBoostTrees

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtraError("scikit-learn", "sklearn") from error

_LARGEST_SEED = 2**31 - 1
_NESTED = "trees__"
#: A value that so great a share of the targets have belongs to an interval that ends just before it: within so many
#: standard deviations of the mean. Else a small error of the mean would leave out half of all observations.
_FREQUENT, _REACH = 0.05, 1.0
#: So many of the newest rows are kept while all targets are equal.
_MOST_EQUAL = 10_000


class TreeEnsembleRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts y = Σ o over the trees, and how far off that mean may be.

    trees: the tree library and its settings; None for `XGBoostTrees()`. Settings may be named in a grid search:
        `trees__max_depth`.
    leaf_output: o as the 'library' set it, or the plain 'average' of what the rows suggest.
    statistics: from 'all' rows, from a 'held_out' share of them that no tree is grown on, or 'out_of_bag'.
    held_out_share: how large that share is.
    variance: of the predicted mean; 'calibrated', so that mean ± 1.96 standard deviations holds the true mean about 95
        times in 100, learned from trees grown on parts of the rows, for which `fit` takes four to eleven times as
        long; or that of the 'leaf', Σ s²/c, the paper's estimate, which is a ranking rather than an interval.
    memory: which rows count once `partial_fit` brings more. 'all', and none is kept: further rows change the leaves
        they reach, and the trees stay; only while there are fewer than 20, or all targets are equal, are rows kept, and
        trees grown anew. A number, as many of the newest; 'auto', those since predictions became worse, in the mean of
        errors or of their squares (ADWIN): rows are kept, and trees are grown anew whenever rows have doubled, an
        eighth of that number is new, or predictions have become worse. 'auto' takes two more fits, to half of the rows
        each, in `fit` and after a change.
    random_state: a seed, a `numpy.random.RandomState`, or None for a new one each time.

    Features are taken as 32-bit floats, NaN for missing; of a column whose numbers are close to each other, as unix
    seconds are, or very small, with an offset and a unit that keep their digits. Dates and masks are refused. A `fit`
    or `partial_fit` that fails leaves the regressor as it was. Targets may have any unit: trees are grown on
    standardised ones. After `fit`: `leaves_`, the LeafStatistics, of such features and targets; `scale_`, mean and
    deviation of the targets; and scikit-learn's `n_features_in_` and `feature_names_in_`.

    >>> import numpy as np
    >>> from treebandit import HistogramForest, TreeEnsembleRegressor
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> model = TreeEnsembleRegressor(HistogramForest(n_trees=20), random_state=0).fit(X, X[:, 0] ** 2)
    >>> mean, deviation = model.predict(X[:3], return_std=True)
    >>> mean.shape, deviation.shape
    ((3,), (3,))
    """

    def __init__(
        self,
        trees: TreeLearner | None = None,
        *,
        leaf_output: LeafOutput = "library",
        statistics: StatisticsFrom = "all",
        held_out_share: float = 0.5,
        variance: VarianceKind = "calibrated",
        memory: MemoryRule = "all",
        random_state: Any = None,
    ) -> None:
        self.trees = trees
        self.leaf_output = leaf_output
        self.statistics = statistics
        self.held_out_share = held_out_share
        self.variance = variance
        self.memory = memory
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All arguments by name; if `deep`, those of the tree learner too, as `trees__max_depth`."""
        params: dict[str, Any] = super().get_params(deep=deep)
        learner = self._learner
        if deep and is_dataclass(learner):
            params |= {f"{_NESTED}{each.name}": getattr(learner, each.name) for each in fields(learner)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set arguments by name. One of the tree learner, as `trees__max_depth`, makes a new learner with it."""
        nested = {name.removeprefix(_NESTED): params[name] for name in params if name.startswith(_NESTED)}
        super().set_params(**{name: params[name] for name in params if not name.startswith(_NESTED)})
        learner = self._learner
        if nested:
            known = [each.name for each in fields(learner)] if is_dataclass(learner) else []
            unknown = [name for name in nested if name not in known]
            if unknown:
                raise ParameterError(
                    f"{learner!r} has no {', '.join(unknown)}; it has {', '.join(known) or 'no fields'}"
                )
            self.trees = replace(learner, **nested)
        return self

    @property
    def _learner(self) -> Any:
        return XGBoostTrees() if self.trees is None else self.trees

    def fit(self, X: Any, y: ArrayLike, **unsupported: Any) -> Self:
        """Grow the trees on (n, d) features and (n,) targets and measure their leaves."""
        self._check_arguments(unsupported)
        with self._as_before_on_failure():
            self._grow_on(*self._validated(X, y, reset=True))
            self._windows = self._new_windows()
        return self

    @contextmanager
    def _as_before_on_failure(self) -> Iterator[None]:
        """Give the regressor back all its members where what is done meanwhile fails."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _new_windows(self) -> list[Adwin]:
        """Windows of errors and of their squares, which begin with those that trees of one half make on the other.

        Trees miss less of the rows they were grown on than of new ones, which have to be compared with them.
        """
        windows = [error_window(), error_window()]
        if self._rows is None or self.memory != "auto" or len(self._rows[1]) < FIRST_ROWS:
            return windows
        features, targets = self._rows
        targets, errors = self.scale_.standardised(targets), np.empty(len(targets))
        random = check_random_state(self.random_state)
        half = random.permutation(len(targets)) % 2 == 0
        for grown, left in ((half, ~half), (~half, half)):
            leaves = self._measured(features[grown], targets[grown], random, calibrated=False)
            errors[left] = targets[left] - leaves.estimate(features[left]).mean
        _watch(windows, errors)
        return windows

    def _errors(self, features: Features, targets: Floats) -> Floats:
        """What predictions miss, in standard deviations of the targets."""
        errors: Floats = self.scale_.standardised(targets) - self.leaves_.estimate(features).mean
        return errors

    def _grow_on(self, features: Features, targets: Floats) -> None:
        """New trees on the rows that count of these."""
        if not isinstance(self.memory, str):
            features, targets = features[-self.memory :], targets[-self.memory :]
        scale = RewardScale.of(targets)
        random, calibrated = check_random_state(self.random_state), self.variance == "calibrated"
        self.leaves_ = self._measured(features, scale.standardised(targets), random, calibrated=calibrated)
        self.scale_ = scale
        # Copies: the rows may be the caller's own.
        kept = self.memory != "all" or not _suffice(targets)
        self._rows = (features.copy(), targets.copy()) if kept else None
        self._grown_on, self._frequent = len(targets), _frequent(targets)

    def partial_fit(self, X: Any, y: ArrayLike, **unsupported: Any) -> Self:
        """Let further rows change the leaves they reach, and grow new trees where `memory` says so.

        The first call is `fit`.
        """
        if not hasattr(self, "leaves_"):
            return self.fit(X, y, **unsupported)
        self._check_arguments(unsupported)
        with self._as_before_on_failure():
            self._learn_more(*self._validated(X, y, reset=False))
        return self

    def _learn_more(self, features: Features, targets: Floats) -> None:
        """Change leaves or grow new trees, as `partial_fit` says."""
        if self._rows is None or (self.memory == "all" and _suffice(self._rows[1])):
            self.leaves_.update(features, self.scale_.standardised(targets))
            return
        windows, known = [window.copy() for window in self._windows], len(self._rows[1])
        watched = self.memory == "auto" and known >= FIRST_ROWS
        worse = _watch(windows, self._errors(features, targets)) if watched else []
        rows = np.concatenate([self._rows[0], features]), np.concatenate([self._rows[1], targets])
        new = known + len(targets) - self._grown_on
        due = self._grown_on if isinstance(self.memory, str) else min(self._grown_on, self.memory // 8)
        if self.memory == "all":
            rows = rows[0][-_MOST_EQUAL:], rows[1][-_MOST_EQUAL:]
        for_the_first_time = any(tell(rows[1]) and not tell(self._rows[1]) for tell in (_differ, _suffice))
        if worse:
            kept = max(min(window.width for window in worse), 2)
            self._grow_on(rows[0][-kept:], rows[1][-kept:])
            windows = self._new_windows()
        elif new >= due or for_the_first_time:
            self._grow_on(*rows)
        else:
            self.leaves_.update(features, self.scale_.standardised(targets))
            self._rows = rows
        self._windows = windows

    def predict(
        self, X: Any, *, return_std: bool = False, interval: float | None = None
    ) -> Floats | tuple[Floats, Floats]:
        """The mean (n,) predicted of (n, d) features.

        return_std: the standard deviation (n,) of that mean too: how far the mean of many observations of such a row
            may be from it. It holds no noise of single observations.
        interval: instead of the mean, the (n,) lower and upper ends of the interval that holds one new observation of
            each row with this probability, noise included; needs the calibrated variance.
        """
        if interval is not None:
            return self._interval(X, interval, return_std)
        check_is_fitted(self)
        found, scale = self.leaves_.estimate(self._features(X)), self.scale_
        mean = scale.mean + scale.deviation * found.mean
        # Not the root of the variance in the targets' unit, which may be beyond what a number can hold.
        return (mean, scale.deviation * np.sqrt(found.variance)) if return_std else mean

    def _interval(self, X: Any, level: float, return_std: bool) -> tuple[Floats, Floats]:
        check_number("interval", level, above=0.0, most=0.999)
        if return_std:
            raise ParameterError(
                "return_std is of the mean, interval of a new observation; ask for one at a time"
            )
        check_is_fitted(self)
        calibration, scale = self.leaves_.calibration, self.scale_
        if calibration is None:
            raise ParameterError(
                f"interval={level!r} with variance='leaf', which knows no noise; fit with variance='calibrated'"
            )
        sums = self.leaves_.leaf_sums(self._features(X))
        low, high = calibration.interval(level, sums.variance)
        lower, upper = (scale.mean + scale.deviation * (sums.mean + end) for end in (low, high))
        reach = _REACH * scale.deviation * np.sqrt(calibration.variance(sums.variance))
        return -_stretched(-lower, reach, -self._frequent[::-1]), _stretched(upper, reach, self._frequent)

    def estimate(self, X: Any) -> Estimate:
        """Mean Σ o, its variance, and the count Σ c over the leaves that each row reaches: (n,) each."""
        check_is_fitted(self)
        return self.scale_.original(self.leaves_.estimate(self._features(X)))

    def _features(self, X: Any) -> Features:
        values = validate_data(self, table_of(X), reset=False, **AS_NUMBERS)
        return self._units.narrow(values, self._columns)

    def _validated(self, X: Any, y: ArrayLike, *, reset: bool) -> tuple[Features, Floats]:
        """Features in 32 bits, with offset and unit where a column needs them, and targets."""
        wanted = {**AS_NUMBERS, "ensure_min_samples": 2 if reset else 1, "y_numeric": True}
        values, targets = validate_data(self, table_of(X), targets_of(y), reset=reset, **wanted)
        before: ColumnUnits = ColumnUnits.none(self._columns) if reset else self._units
        features = before.completed(values).narrow(values, self._columns)  # says what is too large
        self._units: ColumnUnits = before.learned(values, self._columns)
        return features, np.asarray(targets, np.float64)

    @property
    def _columns(self) -> Columns:
        return columns_of(self.n_features_in_, getattr(self, "feature_names_in_", None))

    def _measured(
        self, features: Features, targets: Floats, random: Any, *, calibrated: bool
    ) -> LeafStatistics:
        """The leaves of trees that are grown on these rows."""
        seed = int(random.randint(_LARGEST_SEED))
        grown: Any = slice(None)
        measured: Any = slice(None)
        if self.statistics == "held_out" and len(targets) >= 4:
            measured, grown = held_out(len(targets), self.held_out_share, random)
        own = features[grown], targets[grown]
        leaves = LeafStatistics.measure(
            grow(self._learner, *own, seed=seed),
            features[measured],
            targets[measured],
            output=self.leaf_output,
            out_of_bag=self.statistics == "out_of_bag",
        )
        if calibrated:
            learning = calibrate_steps(self._grow, leaves, *own, seed=seed)
            leaves.calibration = exhausted(learning)
        return leaves

    def _grow(self, features: Features, targets: Floats, seed: int) -> Generator[float, None, Forest]:
        yield 0.0
        return grow(self._learner, features, targets, seed=seed)

    def _check_arguments(self, unsupported: dict[str, Any]) -> None:
        for name, value in unsupported.items():
            if value is not None:
                raise ParameterError(
                    f"fit has no {name}: leaf statistics count rows, and a weighted row would be surer than it is; "
                    "leave rows out at random instead (a copy of a row would be taken for one more observation)"
                )
        check_choice("leaf_output", self.leaf_output, ("library", "average"))
        check_choice("statistics", self.statistics, ("all", "held_out", "out_of_bag"))
        check_choice("variance", self.variance, ("leaf", "calibrated"))
        check_number("held_out_share", self.held_out_share, above=0.0, most=0.999)
        check_memory(self.memory)
        if self.trees is not None:
            check_learner(self.trees)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _differ(targets: Floats) -> bool:
    return bool((targets != targets[0]).any())


def _suffice(targets: Floats) -> bool:
    """Whether targets tell what errors to expect: trees grown on others are not to stay."""
    return len(targets) >= FEWEST_ROWS and _differ(targets)


def _frequent(targets: Floats) -> Floats:
    """The values that many of (n,) targets have."""
    values, counts = np.unique(targets, return_counts=True)
    return values[counts >= max(_FREQUENT * len(targets), 2.0)]


def _stretched(upper: Floats, reach: Floats, values: Floats) -> Floats:
    """Each of (n,) upper ends, or the next of the sorted values where that is at most (n,) `reach` above it."""
    following = np.append(values, np.inf)[np.searchsorted(values, upper)]
    return np.where(following <= upper + reach, following, upper)


def _watch(windows: list[Adwin], errors: Floats) -> list[Adwin]:
    """Let windows of errors and of their squares take these in; those that show a change."""
    errors = np.clip(errors, -LARGEST_ERROR, LARGEST_ERROR)
    taken = zip(windows, (errors, errors**2), strict=True)
    return [window for window, numbers in taken if window.update(numbers.tolist())]
