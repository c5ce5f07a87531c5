"""The page of an off-policy evaluation: one file that works offline, in the look of the reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from treebandit.files import write_whole
from treebandit.reports.evaluation_figures import evaluation_figures
from treebandit.reports.evaluation_terminal import FACTS, estimate_text, facts, headline
from treebandit.reports.page import render

if TYPE_CHECKING:
    from treebandit.evaluation import Evaluation


def write_evaluation_page(evaluation: Evaluation, file: str | Path) -> Path:
    """Write the page of an evaluation; gives its path."""
    return write_whole(Path(file), evaluation_page(evaluation).encode())


def evaluation_page(evaluation: Evaluation) -> str:
    """The page as text; every name in it is escaped by the template."""
    estimators = list(dict.fromkeys(name for policy in evaluation.policies for name in policy.estimates))
    rows = []
    for policy in evaluation.policies:
        cells = {name: estimate_text(estimate) for name, estimate in policy.estimates.items()}
        rows.append((policy, facts(policy), [cells.get(name, ("–", "")) for name in estimators]))
    return render(
        "evaluation.html",
        evaluation_figures(evaluation),
        evaluation=evaluation,
        headline=headline(evaluation),
        heads=FACTS,
        estimators=estimators,
        rows=rows,
    )
