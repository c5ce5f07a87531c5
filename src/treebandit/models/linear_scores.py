"""What a linear model says of each candidate, and how sure it is: one more column for the trees, and a bonus."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Candidates, Columns, Features, Floats, Indices
from treebandit.errors import SavedFileError
from treebandit.features.arm_index import others
from treebandit.features.encoding import ArmEncoding, Encoder, OneHot, saved_arms
from treebandit.models.arm_effects import ArmEffects
from treebandit.models.attribution import ARM, LINEAR_MODEL, Attribution
from treebandit.models.cross_fitting import folds
from treebandit.models.kernel_scores import KernelScores
from treebandit.models.model import Commit
from treebandit.models.outliers import Outliers
from treebandit.models.ridge import Ridge, plain_arrays
from treebandit.models.ridge_prior import learned_prior, lost_levels, saved_ridge
from treebandit.models.screening import screened
from treebandit.models.segments import Segments
from treebandit.models.target_statistics import TargetStatistics

#: Columns with more categories than this are not one-hot: their codes are numbers, with statistics of rewards beside.
_MOST_CATEGORIES = 64
#: With more arms than this, or matrices of more numbers in all, one linear model serves all arms.
_MOST_ARMS = 64
_MOST_NUMBERS = 1 << 22
#: Linear models see no more features than this, the first ones.
_MOST_FEATURES = 1024
#: The kernel regression needs so many columns of numbers that vary among the rows of an arm.
_FEWEST_NUMBERS = 8
#: An arm has few rows with less than this share of what it would have if all had as many.
_FEW = 0.25
#: The prior of a regression weighs at most as much as this share of the rows of all arms. Few rows full of noise seem
#: to say that there are no slopes at all; with a prior that believed them, nothing would be explored any more.
_PRIOR_SHARE = 1 / 20


class LinearEncoder(Encoder):
    """An encoder that puts, behind arm and one-hot features, what a ridge regression says of the row.

    Where one regression serves all arms, its score is not among the features: trees see all that it is made from, and
    rows that come again stay the same (`trees/leaf_cache.py`).

    ridge: the regressions, where each arm has one with a prior learned from all; None for an encoder without the score.
    outliers: how they learn rewards that are far from what was expected; None where there can be none.
    segments: where rewards are nearly all noise, means of segments that the score is averaged with.
    effects: of arms too many for regressions each.
    kernel: the kernel regression on many numbers; None where there are few.
    kept: the columns that trees and regressions see; None, all. Of a column with more than 64 categories they see the
        code, and behind all others what rows of the category paid with the arm.
    """

    def __init__(
        self,
        columns: Columns,
        arms: Indices | None,
        *,
        arm_encoding: ArmEncoding,
        kept: Indices | None = None,
    ) -> None:
        places = range(len(columns)) if kept is None else kept.tolist()
        counts = [columns.categories[place] for place in places]
        self._large = np.flatnonzero(np.array(columns.categories, np.intp) > _MOST_CATEGORIES)
        few = tuple(count if count <= _MOST_CATEGORIES else 0 for count in counts) + (0,) * len(self._large)
        shown = Columns(few)
        super().__init__(shown, arms, arm_encoding=arm_encoding, categories="one_hot")
        self.columns, self._kept = columns, kept
        self._numbers = np.flatnonzero(np.array(columns.categories, np.intp) == 0)
        self._layout = (self._one_hot or OneHot(shown)).layout
        widths = np.cumsum(np.maximum(few, 1))
        self._seen = int(np.searchsorted(widths, _MOST_FEATURES, side="right"))
        self._linear_columns = Columns(few[: self._seen])
        self._linear_width = 1 + int(widths[self._seen - 1]) if self._seen else 1
        self._arms = 0
        #: Whether the arms learned are too many for a regression each.
        self.many_arms = False
        #: Whether there are so many, and choices are paths among them (`models/blend.py`).
        self.paths = False
        self.ridge: Ridge | None = None
        #: Arms that the trees know, once asked for; arms that a learned prior tells of: others may be unlike these.
        self._first_arms: frozenset[int] = frozenset()
        self._prior_arms: frozenset[int] = frozenset()
        self.segments: Segments | None = None
        self.outliers: Outliers | None = None
        self.effects: ArmEffects | None = None
        self.kernel: KernelScores | None = None
        self._statistics: TargetStatistics | None = None

    @classmethod
    def fit(
        cls,
        rows: Candidates,
        rewards: Floats,
        *,
        arm_encoding: ArmEncoding,
        random: np.random.Generator,
        linear: bool = True,
        many_arms: bool = False,
    ) -> tuple[Self, Features]:
        """The encoder, and the (n, width) features of the rows it was fitted to.

        many_arms: one regression serves all arms, however few these are.

        The score of such a row is cross-fitted: by regressions that have not seen the row. Leaving out the row alone
        would not do: where contexts repeat, such a score falls as the row's own reward rises, and trees learn that.
        """
        kept = screened(rows, rewards, most_arms=_MOST_ARMS)
        encoder = cls(rows.columns, rows.arms, arm_encoding=arm_encoding, kept=kept)
        arms = 0 if rows.arms is None else len(np.unique(rows.arms))
        wide = arms * encoder._linear_width**2 > _MOST_NUMBERS
        encoder.many_arms = many_arms or wide or arms > _MOST_ARMS
        visible = encoder._fitted_statistics(rows, rewards, random)
        if not linear:
            return encoder, encoder._features(visible, rows.arms)
        encoder.ridge = Ridge()
        encoder._arms = 0 if encoder.many_arms else arms
        shown = encoder._shown(visible, rows.arms)
        encoder.ridge.learn(shown, rewards)
        if rows.arms is None or not encoder.scored:
            return encoder, encoder._features(visible, rows.arms)
        encoder.outliers = Outliers.of(rewards, rows.arms)
        if encoder.outliers is not None:
            bounded = encoder.outliers.fit(rewards, encoder.ridge.predict(shown)[0], rows.arms)
            if bounded is not rewards:
                rewards, encoder.ridge = bounded, Ridge()
                encoder.ridge.learn(shown, rewards)
        learned = learned_prior(encoder.ridge.parts, _PRIOR_SHARE * len(rows))
        if learned.ridge > encoder.ridge.ridge and not encoder.ridge.solve_anew(learned.ridge):
            encoder.ridge = Ridge(learned.ridge)
            encoder.ridge.learn(shown, rewards)
        if encoder.ridge.ridge > 1.0:
            labels, first = np.unique(rows.arms, return_index=True)
            encoder._prior_arms = frozenset(labels[2 * first < len(rows)].tolist())
        if learned.noisy:
            seen = Candidates(visible[:, : encoder._seen], rows.arms, encoder._linear_columns)
            encoder.segments = Segments.fit(seen, rewards, learned.evidence)
        visible, codes = plain_arrays(visible, rows.arms)
        features = encoder._only_arms(len(visible), encoder.width + 1, codes)
        encoder.ridge.look_up(visible, codes[:0], encoder._layout, features)
        features[:, -1] = encoder.ridge.cross_fitted(shown, rewards, folds(shown.arms, len(shown), random))
        return encoder, features

    def _fitted_statistics(self, rows: Candidates, rewards: Floats, random: np.random.Generator) -> Features:
        """Learn what categories of large columns pay; what trees and regressions see of the rows, cross-fitted."""
        if not len(self._large):
            return self._visible(rows.contexts, rows.arms)
        arms = np.zeros(len(rows), np.intp) if rows.arms is None or self.many_arms else rows.arms
        self._statistics, own = TargetStatistics.fit(
            Candidates(rows.contexts, arms, rows.columns),
            rewards,
            places=self._large,
            folds=folds(arms, len(rows), random),
        )
        return self._visible(rows.contexts, rows.arms, own)

    @property
    def scored(self) -> bool:
        """Whether the score is the last feature of the trees."""
        return self._arms > 0

    def bonus_of(self, deviation: float) -> float:
        """The bonus of a row that its arm knows nothing of, for rewards of this standard deviation.

        It is divided by √width, so that over an arm's rows it is about the standard error of the arm's mean; times
        √log₂ K, as the best of K arms is harder to find. A learned λ makes leverage smaller; so the bonus is multiplied
        by √λ, until with λ ≥ width / log₂ K it is the deviation under the posterior, as in LinUCB.
        """
        ridge = 1.0 if self.ridge is None else self.ridge.ridge
        share = math.log2(max(self._arms, 2)) / self._linear_width
        return deviation * math.sqrt(max(share, min(ridge * share, 1.0)))

    @property
    def few_rows(self) -> tuple[float, float, float, float]:
        """How many rows of an arm are few, which is none where one regression serves all arms; and a row's width.

        Last, a prior with λ > 1 lowers leverage like width · (λ - 1) / |z|² further rows, with 1 for the intercept and
        each column as the mean of |z|²: how many of these are taken off again, and how many count. With K arms 2 / K of
        them are taken off, with two arms all: what a prior says of an arm was learned from the others.
        """
        assert self.ridge is not None
        width, squares = float(self._linear_width), 1.0 + self._seen
        few = _FEW * len(self.ridge) / self._arms if self._arms else 0.0
        prior = width * (self.ridge.ridge - 1.0) / squares
        left_out = min(2.0 / max(self._arms, 1), 1.0) * prior
        return few, width, left_out, prior - left_out

    def came_later(self, arms: Indices | None) -> NDArray[np.bool_] | None:
        """Whether trees that see the arm were fitted without rows of (n,) arms; None where all had some."""
        if arms is None or self.ridge is None or not (self.scored and self._front):
            return None
        if not self._first_arms:
            self._first_arms = frozenset(self.ridge.arms[: self._arms].tolist())
        return others(self._first_arms, arms)

    def rows_known(self, arms: Indices, counts: Floats) -> Floats:
        """How many rows (n,) arms have, less those that a prior counts as where it was not learned from the arm."""
        later = others(self._prior_arms, arms) if self._prior_arms else None
        return counts if later is None else counts - self.few_rows[-1] * later

    @property
    def sources(self) -> Indices:
        """(width,), the column that each feature stems from; ARM or LINEAR_MODEL for what stems from none."""
        score = np.full(int(self.scored), LINEAR_MODEL)
        return np.concatenate([np.full(self._front, ARM), self._places[self._layout[0]], score])

    @property
    def _places(self) -> Indices:
        """The column that each of those stems from that trees and regressions see."""
        kept = np.arange(len(self.columns)) if self._kept is None else self._kept
        return np.concatenate([kept, self._large])

    def attribution(self, contexts: Features, arms: Indices | None) -> Attribution:
        """What columns and arm add to the score of each row."""
        assert self.ridge is not None
        found = self.ridge.attribution(self._shown(visible := self._visible(contexts, arms), arms))
        if self.segments is not None:
            visible, codes = plain_arrays(visible, arms)
            found = self.segments.attributed(visible[:, : self._seen], codes, found)
        if arms is not None and (later := self.came_later(arms)) is not None:
            found.arm[later] += lost_levels(self.ridge, arms[later])
        columns = np.zeros((len(self.columns), len(contexts)))
        np.add.at(columns, self._places[: found.columns.shape[1]], found.columns.T)
        return found._replace(columns=columns.T)

    def __call__(self, contexts: Features, arms: Indices | None) -> Features:
        """(n, width) features of (n, d) contexts and their (n,) arms, the score included."""
        return self.look_up(contexts, arms)[0]

    def look_up(self, contexts: Features, arms: Indices | None) -> tuple[Features, Floats, Floats, Floats]:
        """The features, each row's linear score, its leverage z'A⁻¹z, and how many rows its arm has, (n,) each."""
        visible = self._visible(contexts, arms)
        if self.ridge is None:
            return self._features(visible, arms), *np.zeros((3, len(contexts)))
        if not self.scored:
            return self._features(visible, arms), *self.ridge.predict(self._shown(visible, arms))
        visible, codes = plain_arrays(visible, arms)
        features = self._only_arms(len(visible), self.width + 1, codes)
        return features, *self._predicted(visible, codes, features)

    def _predicted(self, visible: Features, arms: Indices, features: Features) -> Floats:
        """Score, leverage and rows of the arm, (3, n); fills in the features, with the regressions' score alone."""
        assert self.ridge is not None
        found = self.ridge.look_up(visible, arms, self._layout, features)
        if self.ridge.ridge > 1.0 and (later := self.came_later(arms)) is not None:
            found[0, later] += lost_levels(self.ridge, arms[later])
        if self.segments is not None:
            self.segments.average(visible[:, : self._seen], arms, *found[:2])
        return found

    def fit_kernel(
        self, rows: Candidates, rewards: Floats, random: np.random.Generator
    ) -> Generator[float, None, None]:
        """Fit the kernel regression to these rows, where there are numbers enough and not too many arms."""
        if rows.arms is None or self.many_arms or len(self._numbers) < _FEWEST_NUMBERS:
            return
        contexts = self._only_numbers(rows.contexts)
        _, first, arms = np.unique(rows.arms, return_index=True, return_inverse=True)
        varying = (contexts != contexts[first[arms]]).any(axis=0)
        if np.count_nonzero(varying) >= _FEWEST_NUMBERS:
            self.kernel = yield from KernelScores.fit_steps(contexts, rows.arms, rewards, random=random)

    def kernel_scores(self, rows: Candidates) -> Floats:
        """What the kernel regression says of each row, (n,)."""
        assert self.kernel is not None
        assert rows.arms is not None
        return self.kernel(self._only_numbers(rows.contexts), rows.arms)

    def kernel_look_up(self, rows: Candidates) -> tuple[Floats, Floats]:
        """The same, and each row's leverage there, (n,)."""
        assert self.kernel is not None
        assert rows.arms is not None
        return self.kernel.with_leverage(self._only_numbers(rows.contexts), rows.arms)

    def kernel_attribution(self, rows: Candidates) -> Attribution:
        """What columns and arm add to what the kernel regression says of each row."""
        assert self.kernel is not None
        assert rows.arms is not None
        mean, found = self.kernel.attribution(self._only_numbers(rows.contexts), rows.arms)
        # The rest of the score is the arm's constant, and what 32 bits lose on the way.
        constant = self.kernel_look_up(rows)[0] - (mean + found.sum(axis=1))
        columns = np.zeros((len(rows), len(self.columns)))
        columns[:, self._numbers] = found
        return Attribution(np.full(len(rows), mean), columns, constant, np.zeros(len(rows)))

    def _only_numbers(self, contexts: Features) -> Features:
        return contexts if len(self._numbers) == contexts.shape[1] else contexts.take(self._numbers, axis=1)

    def scored_update(self, rows: Candidates, rewards: Floats) -> tuple[Features, Floats, Commit | None]:
        """Features and score of each row, and the update by them; None where there are no regressions."""
        if self.ridge is None or not self.scored:
            features, scores, *_ = self.look_up(rows.contexts, rows.arms)
            shown = self._shown(self._visible(rows.contexts, rows.arms), rows.arms)
            return features, scores, None if self.ridge is None else self.ridge.prepared(shown, rewards)
        # What both need is found once, since most updates are of one row.
        visible, codes = plain_arrays(self._visible(rows.contexts, rows.arms), rows.arms)
        features = self._only_arms(len(visible), self.width + 1, codes)
        scores = self._predicted(visible, codes, features)[0]
        if self.outliers is not None:
            rewards = self.outliers.bounded(rewards, scores, codes)
        learn = self.ridge.prepared_arrays(self._linear_columns, visible, codes, rewards)
        if self.segments is None:
            return features, scores, learn
        add = self.segments.prepared_update(visible[:, : self._seen], codes, rewards)

        def commit() -> None:
            learn()
            add()

        return features, scores, commit

    def state(self) -> dict[str, Any]:
        """What tells this encoder from another of the same agent."""
        linear = None
        if self.ridge is not None:
            linear = {
                "arms": self._arms,
                "ridge": self.ridge.state(),
                "outliers": None if self.outliers is None else self.outliers.state(),
                "segments": None if self.segments is None else self.segments.state(),
                "prior_arms": np.array(sorted(self._prior_arms), np.intp),
            }
        return {
            **super().state(),
            "kept": self._kept,
            "many_arms": self.many_arms,
            "paths": self.paths,
            "linear": linear,
            "effects": None if self.effects is None else self.effects.state(),
            "kernel": None if self.kernel is None else self.kernel.state(),
            "statistics": None if self._statistics is None else self._statistics.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The encoder that `state` described."""
        columns, (arms, arm_encoding) = schema.columns_in(state), saved_arms(state)
        kept = None if schema.value(state, "kept") is None else schema.labels(state, "kept")
        if kept is not None and not ((kept >= 0) & (kept < len(columns))).all():
            raise schema.refused("kept", kept, f"some of the columns 0 to {len(columns) - 1}")
        encoder = cls(columns, arms, arm_encoding=arm_encoding, kept=kept)
        if (linear := schema.optional(state, "linear")) is not None:
            saved = schema.part(linear, "ridge")
            encoder._arms = schema.whole(linear, "arms", most=_MOST_ARMS)
            encoder.ridge = Ridge(saved_ridge(saved))
            encoder.ridge.restore(saved)
            if encoder.ridge.categories != encoder._linear_columns.categories:
                raise SavedFileError("the saved regressions do not have the columns of the encoder")
            encoder._prior_arms = frozenset(schema.labels(linear, "prior_arms").tolist())
            if (outliers := schema.optional(linear, "outliers")) is not None:
                encoder.outliers = Outliers.restored(outliers)
            if (segments := schema.optional(linear, "segments")) is not None:
                encoder.segments = Segments.restored(segments, encoder._linear_columns.categories)
        if (effects := schema.optional(state, "effects")) is not None:
            encoder.effects = ArmEffects.restored(effects)
        encoder.many_arms, encoder.paths = schema.flag(state, "many_arms"), schema.flag(state, "paths")
        if len(encoder._large):
            statistics = schema.part(state, "statistics")
            encoder._statistics = TargetStatistics.restored(statistics, columns, encoder._large)
        if (kernel := schema.optional(state, "kernel")) is not None:
            encoder.kernel = KernelScores.restored(kernel, len(encoder._numbers))
        return encoder

    def _shown(self, contexts: Features, arms: Indices | None) -> Candidates:
        """Rows as the regressions see them: no arms where all share one model."""
        return Candidates(contexts, arms if self._arms else None, self._linear_columns)

    def _visible(self, contexts: Features, arms: Indices | None, own: Features | None = None) -> Features:
        """The columns that trees and regressions see; `own` statistics of large ones behind them, else as learned."""
        seen = contexts
        if self._kept is not None:
            seen = contexts.take(self._kept, axis=1)
        elif contexts.shape[1] > len(self.columns.categories):  # some were added since
            seen = contexts[:, : len(self.columns)]
        if own is None and self._statistics is not None:
            own = self._statistics(contexts, None if self.many_arms else arms)
        return seen if own is None else np.hstack([seen, own])

    def _features(self, contexts: Features, arms: Indices | None) -> Features:
        """What trees see that do without the score."""
        shown = contexts if self._one_hot is None else self._one_hot(contexts)
        if not self._front:
            return np.ascontiguousarray(shown)
        features = self._only_arms(len(contexts), self.width, arms)
        features[:, self._front :] = shown
        return features

    def _only_arms(self, n: int, width: int, arms: Indices | None) -> Features:
        """(n, width) features of which only the arms are filled in."""
        features = np.empty((n, width), np.float32)
        if self._front:
            self._fill_arms(features, arms)
        return features
