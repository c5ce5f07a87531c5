"""A figure of an explanation: what each part adds to the score of each candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from treebandit.reports.charts import inline, themed

if TYPE_CHECKING:
    from treebandit import Explanation

#: Parts shown of one explanation: those that add or take most.
_MOST_PARTS = 12
_MORE, _LESS = "#0072B2", "#D55E00"


def explanation_figure(explanation: Explanation) -> Any:
    """An Altair chart with a panel for each candidate: bars of what each part adds, above and below 0.

    The title of a panel has the baseline, and the mean that it and all bars but exploration add up to.

    >>> import numpy as np
    >>> agent = treebandit.Bandit(seed=0)
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> agent.learn(x, x[:, 0], arms=np.arange(100) % 2)
    >>> from treebandit.reports import explanation_figure
    >>> chart = explanation_figure(agent.explain([1.5, 0.0], arms=[0, 1]))
    """
    table = pl.DataFrame(explanation.table, strict=False).with_columns(
        pl.col("contribution").cast(pl.Float64)
    )
    first = explanation.parts[0]
    sizes = table.filter(pl.col("part") != first).group_by("part").agg(pl.col("contribution").abs().max())
    shown = set(sizes.sort("contribution", descending=True)["part"][:_MOST_PARTS])
    order = [part for part in [*explanation.parts, table["part"][-1]] if part in shown]
    panels = []
    for row, mean in enumerate(explanation.mean.tolist()):
        mine = table.filter((pl.col("candidate") == row) & pl.col("part").is_in(order))
        mine = mine.with_columns(pl.col("value").cast(pl.String).fill_null(""))
        label = f"candidate {row}" if explanation.labels is None else str(explanation.labels[row])
        bars = alt.Chart(inline(mine.select("part", "value", "contribution"))).mark_bar()
        panels.append(
            bars.encode(
                y=alt.Y("part:N", sort=order, title=None),
                x=alt.X("contribution:Q", title="added to the mean reward"),
                color=alt.condition(alt.datum.contribution > 0, alt.value(_MORE), alt.value(_LESS)),
                tooltip=["part:N", "value:N", alt.Tooltip("contribution:Q", format=".4g")],
            ).properties(
                width=220,
                title=[label, f"expected {mean:.3g}, baseline {explanation.contributions[row, 0]:.3g}"],
            )
        )
    return themed(alt.hconcat(*panels).resolve_scale(x="shared", y="shared"))
