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
#: Smaller rewards are written with a power of ten.
_MOST_DECIMALS = 12


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
    (mean,) = numbers(float(evaluation.reward.mean()))
    return f"{evaluation.decisions:,} decisions{used}, mean reward {mean}"


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
    value, low, high = numbers(estimate.value, estimate.interval.low, estimate.interval.high)
    known = np.isfinite([estimate.interval.low, estimate.interval.high]).all()
    return value, f"[{low}, {high}]" if known else "[no interval]"


def interval_text(value: float, low: float, high: float) -> str:
    """A reward and its interval, as text."""
    value_text, *limits = numbers(value, low, high)
    return f"{value_text} [{', '.join(limits)}]"


def numbers(*values: float) -> list[str]:
    """Rewards that belong together, with as many decimals as the largest and the distance between them need."""
    finite = [value for value in values if np.isfinite(value)]
    largest = max(map(abs, finite), default=0.0)
    decimals = _decimals(largest, max(finite) - min(finite)) if largest else 4
    form = f",.{decimals}f" if decimals <= _MOST_DECIMALS and largest < 1e15 else ".4g"
    return [f"{value:{form}}" if np.isfinite(value) else "–" for value in values]


def _decimals(largest: float, apart: float) -> int:
    """Four decimals below 10 and four digits above; at least three digits of the largest, two of what is between."""
    size = int(np.floor(np.log10(largest)))
    usual = 4 if size < 1 else max(0, 3 - size)
    between = 1 - int(np.floor(np.log10(apart))) if apart > 0 else 0
    return max(usual, 2 - size, min(between, 14 - size, _MOST_DECIMALS))
