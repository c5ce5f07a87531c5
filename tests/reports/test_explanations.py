import numpy as np
import polars as pl
import pytest

from treebandit import LinUCB
from treebandit.reports import explanation_figure


def values(chart, panel):
    """What a panel draws: CSV, which Altair may keep in a place for all panels."""
    data = panel["data"]
    text = data["values"] if "values" in data else chart["datasets"][data["name"]]
    return pl.read_csv(text.encode()).to_dicts()


def explained(columns, arms):
    agent = LinUCB(seed=0)
    x = np.random.default_rng(0).normal(size=(60, columns))
    agent.learn(x, x[:, 0], arms=None if arms is None else np.arange(60) % 2)
    return agent.explain(x[:2], arms)


def test_one_panel_for_each_candidate_with_its_bars():
    explanation = explained(2, [0, 1])
    chart = explanation_figure(explanation).to_dict()
    assert [panel["title"][0] for panel in chart["hconcat"]] == ["0", "1"]
    for row, panel in enumerate(chart["hconcat"]):
        bars = {each["part"]: each["contribution"] for each in values(chart, panel)}
        assert list(bars) == ["x0", "x1", "(arm)", "(exploration)"]
        total = explanation.contributions[row, 0] + sum(bars.values())
        np.testing.assert_allclose(total, explanation.mean[row] + explanation.exploration[row])


@pytest.mark.parametrize(("columns", "bars"), [(12, 12), (13, 13), (14, 12), (30, 12)])
def test_parts_of_wide_rows_that_add_little_have_one_bar_together(columns, bars):
    explanation = explained(columns, None)
    chart = explanation_figure(explanation).to_dict()
    assert [panel["title"][0] for panel in chart["hconcat"]] == ["candidate 0", "candidate 1"]
    for row, panel in enumerate(chart["hconcat"]):
        drawn = {each["part"]: each["contribution"] for each in values(chart, panel)}
        others = [f"({columns - bars} others)"] * (bars < columns)
        assert list(drawn)[bars:] == [*others, "(exploration)"]
        assert "x0" in drawn
        total = explanation.contributions[row, 0] + sum(drawn.values()) - drawn["(exploration)"]
        np.testing.assert_allclose(total, explanation.mean[row])
        assert panel["encoding"]["y"]["sort"] == list(drawn)
