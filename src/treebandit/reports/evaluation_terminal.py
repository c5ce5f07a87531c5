"""The table of an off-policy evaluation in a terminal: what the estimates rest on first, then the estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from treebandit.evaluation import Estimated, Evaluation, PolicyValue


#: What `facts` tells of a policy.
FACTS = ("effective sample", "largest weight", "mean weight", "support")


def print_evaluation(evaluation: Evaluation, console: Console) -> None:
    """Draw diagnostics and estimates of every policy, refusals and warnings in words."""
    console.print(Text(f"{evaluation.source}: {headline(evaluation)}", style="bold"))
    for note in evaluation.notes:
        console.print(Text(note, style="bold red" if note.isupper() or note.startswith("PROB") else "yellow"))
    console.print(Text(f"Log: {'; '.join(evaluation.log.facts())}.", style="dim"))
    for warning in evaluation.warnings():
        console.print(Text(f"Doubtful: {warning}.", style="yellow"))
    console.print(_diagnostics(evaluation))
    if any(policy.estimates for policy in evaluation.policies):
        console.print(_estimates(evaluation))
        kind = f"{100 * evaluation.level:g} % {evaluation.interval} interval"
        console.print(Text(f"Mean reward per decision, {kind}.", style="dim"))
    for policy in evaluation.policies:
        if policy.refusal:
            shown = " (shown anyway)" if policy.estimates else "; --anyway shows the number"
            console.print(Text(f"{policy.name}: {policy.refusal}{shown}.", style="bold red"))
        for warning in policy.diagnostics.warnings():
            console.print(Text(f"{policy.name}: {warning}.", style="yellow"))


def _diagnostics(evaluation: Evaluation) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("policy", overflow="fold")
    for head in FACTS:
        grid.add_column(head, justify="right")
    for policy in evaluation.policies:
        grid.add_row(Text(policy.name, style="bold red" if policy.refusal else ""), *facts(policy))
    return grid


def _estimates(evaluation: Evaluation) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("policy", overflow="fold")
    grid.add_column("estimator", no_wrap=True)
    grid.add_column("mean reward", justify="right", no_wrap=True)
    grid.add_column("interval", no_wrap=True)
    for policy in evaluation.policies:
        if policy.estimates and grid.row_count:
            grid.add_section()
        for place, (name, estimate) in enumerate(policy.estimates.items()):
            value, limits = estimate_text(estimate)
            grid.add_row(Text("" if place else policy.name), name, value, Text(limits))
    return grid


def headline(evaluation: Evaluation) -> str:
    """How many decisions, and what they paid."""
    used = "" if evaluation.used == evaluation.decisions else f", {evaluation.used:,} with rewards"
    return f"{evaluation.decisions:,} decisions{used}, mean reward {number(float(evaluation.reward.mean()))}"


def facts(policy: PolicyValue) -> tuple[str, ...]:
    """Effective sample size, largest and mean weight, and share of decisions with support, as text."""
    found = policy.diagnostics
    largest = f"{found.largest_weight:,.1f}" if found.largest_weight < 1e7 else f"{found.largest_weight:.1e}"
    mean = f"{found.mean_weight:.3f}" if found.mean_weight < 1e5 else f"{found.mean_weight:.1e}"
    # Rounded down: 100 % are all decisions.
    support = "–" if found.support is None else f"{np.floor(1000 * found.support + 1e-9) / 10:g} %"
    return f"{found.effective:,.0f}", largest, mean, support


def estimate_text(estimate: Estimated) -> tuple[str, str]:
    """An estimate and its interval, as text."""
    low, high = estimate.interval.low, estimate.interval.high
    known = np.isfinite([low, high]).all()
    return number(estimate.value), f"[{number(low)}, {number(high)}]" if known else "[no interval]"


def number(value: float) -> str:
    """A reward with four significant digits, and no more than four decimals."""
    if not np.isfinite(value):
        return "–"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.4g}"
