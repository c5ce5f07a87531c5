"""A figure of an explanation: what each part adds to the score of each candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import polars as pl

from treebandit.agents.explaining import EXPLORATION
from treebandit.reports.charts import inline, themed

if TYPE_CHECKING:
    from treebandit import Explanation

#: Parts with a bar of their own: those that add or take most.
_MOST_PARTS = 12
_MORE, _LESS = "#0072B2", "#D55E00"


def explanation_figure(explanation: Explanation) -> Any:
    """An Altair chart with a panel for each candidate: bars of what each part adds, above and below 0.

    The title of a panel has the baseline, and the mean that it and all bars but exploration add up to. Of many parts
    those that add or take most have a bar each, the others one together.

    >>> import numpy as np
    >>> agent = treebandit.Bandit(seed=0)
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> agent.learn(x, x[:, 0], arms=np.arange(100) % 2)
    >>> from treebandit.reports import explanation_figure
    >>> chart = explanation_figure(agent.explain([1.5, 0.0], arms=[0, 1]))
    """
    alone, rest = _split(explanation)
    together = [f"({len(rest)} others)"] if rest else []
    names = [*(explanation.parts[place] for place in alone), *together, EXPLORATION]
    panels = []
    for row, mean in enumerate(explanation.mean.tolist()):
        given, added = explanation.values[row], explanation.contributions[row]
        values = ["" if given[place] is None else str(given[place]) for place in alone]
        sums = [*added[alone], *(added[rest].sum() for _ in together), explanation.exploration[row]]
        blank = [""] * (len(names) - len(values))
        mine = pl.DataFrame({"part": names, "value": values + blank, "contribution": sums})
        label = f"candidate {row}" if explanation.labels is None else str(explanation.labels[row])
        bars = alt.Chart(inline(mine)).mark_bar()
        panels.append(
            bars.encode(
                y=alt.Y("part:N", sort=names, title=None),
                x=alt.X("contribution:Q", title="added to the mean reward"),
                color=alt.condition(alt.datum.contribution > 0, alt.value(_MORE), alt.value(_LESS)),
                tooltip=["part:N", "value:N", alt.Tooltip("contribution:Q", format=".4g")],
            ).properties(
                width=220,
                title=[label, f"expected {mean:.3g}, baseline {added[0]:.3g}"],
            )
        )
    whole = alt.hconcat(*panels).resolve_scale(x="shared", y="shared")
    return themed(whole.configure(font="sans-serif", background="white", padding=12))


def _split(explanation: Explanation) -> tuple[list[int], list[int]]:
    """Places of the parts that have a bar of their own, and of the others; the baseline has none."""
    sizes = np.abs(explanation.contributions[:, 1:]).max(axis=0)
    order = (1 + np.argsort(-sizes, kind="stable")).tolist()
    most = _MOST_PARTS if len(order) > _MOST_PARTS + 1 else len(order)  # a single other has its own bar
    return sorted(order[:most]), order[most:]
