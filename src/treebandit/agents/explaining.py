"""Why candidates are scored as they are: what columns and arm add, what is exploration, which rows were alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treebandit.core import Candidates, Floats, optional
from treebandit.errors import NoEstimateError
from treebandit.features.given_values import given_values, learned_values
from treebandit.features.inputs import Inputs
from treebandit.models.attribution import Explains
from treebandit.models.model import RewardModel
from treebandit.models.tree_model import TreeModel

BASELINE, ARM, LINEAR_MODEL, EXPLORATION = "(baseline)", "(arm)", "(linear model)", "(exploration)"
_SIMILAR = 5


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Where the scores of n candidates come from.

    parts: what adds up: '(baseline)', each column, '(arm)', '(linear model)': what the trees make of the linear score
        that is one of their features. Only those that the agent has. A column that is called '(arm)' is the part
        'column (arm)'; so it is with any name in parentheses.
    values: (n) rows of what each part's value is, as it was given; None where it has none or is missing.
    contributions: (n, parts) what each adds; a row adds up to the candidate's `mean`.
    mean: (n,) the reward that the agent expects, as `estimate` tells.
    exploration: (n,) what the mean score of many draws has above that.
    deviation: (n,) the standard deviation of these draws.
    labels: (n,) arms, or None.
    similar: for each candidate the learned rows that share most leaves of the trees with it, as columns `row` (in the
        order of learning, of those that still count), `share` of the trees, `context` (each column's value, numbers as
        far as 32 bits tell), `arm` and `reward`.

    >>> import numpy as np
    >>> agent = treebandit.Bandit(seed=0)
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> agent.learn(x, x[:, 0], arms=np.arange(100) % 2)
    >>> explanation = agent.explain([1.5, 0.0], arms=[0, 1])
    >>> explanation.parts
    ('(baseline)', 'x0', 'x1', '(arm)', '(linear model)')
    >>> bool(np.allclose(explanation.contributions.sum(1), explanation.mean))
    True
    """

    parts: tuple[str, ...]
    values: list[list[Any]]
    contributions: Floats
    mean: Floats
    exploration: Floats
    deviation: Floats
    labels: tuple[int | str, ...] | None
    similar: list[dict[str, list[Any]]]

    @property
    def table(self) -> dict[str, list[Any]]:
        """One row for each candidate and part, exploration last, as plain columns that any frame library takes.

        `value` is text, since a frame's column has one type: numbers with all their digits, None where there is none.
        The contributions of a candidate add up to its mean score.
        """
        n, names = len(self.mean), [*self.parts, EXPLORATION]
        table: dict[str, list[Any]] = {"candidate": [row for row in range(n) for _ in names]}
        if self.labels is not None:
            table["arm"] = [label for label in self.labels for _ in names]
        table["part"] = names * n
        shown = (value for values in self.values for value in (*values, None))
        table["value"] = [None if value is None else str(value) for value in shown]
        table["contribution"] = np.column_stack([self.contributions, self.exploration]).ravel().tolist()
        return table


def explained(
    model: RewardModel, rows: Candidates, draws: Floats, contexts: Any, labels: Any, inputs: Inputs
) -> Explanation:
    """What a model tells of rows, which were given as `contexts`, and of which a policy has made (draws, n) draws."""
    if not isinstance(model, Explains):
        raise NoEstimateError(
            f"a {type(model).__name__} cannot tell what a feature adds; use Bandit, TEUCB, TETS, LinUCB or LinTS"
        )
    if labels is not None and isinstance(contexts, Candidates):
        labels = tuple(_by_name(labels, inputs))
    found = model.attribution(rows)
    d = found.columns.shape[1]
    names = (rows.columns.names or tuple(f"x{place}" for place in range(d)))[:d]
    #: What is no column: its name, what it adds, and its value in each row.
    others: list[tuple[str, Floats, Any]] = []
    if rows.arms is not None:
        others.append((ARM, found.arm, labels))
    else:
        # A regression that all arms share has a level for rows without arms, too.
        found = found._replace(baseline=found.baseline + found.arm)
    if found.linear_model.any():
        others.append((LINEAR_MODEL, found.linear_model, [None] * len(rows)))
    values = [
        [None, *row[:d], *(own[place] for _, _, own in others)]
        for place, row in enumerate(given_values(contexts, rows, inputs))
    ]
    columns = _apart(names)
    parts = BASELINE, *columns, *(name for name, _, _ in others)
    contributions = np.column_stack([found.baseline, found.columns, *(added for _, added, _ in others)])
    mean, similar = contributions.sum(1), _similar(model, rows, columns, inputs)
    explored = draws.mean(0) - mean, draws.std(0)
    return Explanation(parts, values, contributions, mean, *explored, labels, similar)


def _apart(names: Sequence[str]) -> list[str]:
    """Names of columns that no other part has: "(arm)" becomes "column (arm)", a second "a" "column a"."""
    found: dict[str, None] = {}
    for name in names:
        apart = name
        while apart[:1] + apart[-1:] == "()" or apart in found or (apart != name and apart in names):
            apart = f"column {apart}"
        found[apart] = None
    return list(found)


def _by_name(arms: Sequence[int], inputs: Inputs) -> list[int | str]:
    """Arms by the labels that were given; as they are where these are numbers, or do not tell all of them."""
    names = dict(enumerate(inputs.labels.state())) if inputs.labels.named else {}
    known = all(arm in names for arm in arms)
    return [names[arm] if known else arm for arm in arms]


def _similar(
    model: RewardModel, rows: Candidates, columns: Sequence[str], inputs: Inputs
) -> list[dict[str, list[Any]]]:
    history = optional(model, "history")
    if not isinstance(model, TreeModel) or history is None or not history.whole:
        return [{} for _ in range(len(rows))]
    order, shares = model.similar(rows, _SIMILAR)
    found = []
    for chosen, share in zip(order, shares, strict=True):
        table = {"row": chosen.tolist(), "share": share.tolist(), "reward": history.rewards[chosen].tolist()}
        values = learned_values(history.contexts[chosen], inputs)
        table["context"] = [dict(zip(columns, each, strict=False)) for each in values]
        if history.arms is not None:
            table["arm"] = _by_name(history.arms[chosen].tolist(), inputs)
        found.append(table)
    return found
