"""Figures of an off-policy evaluation: estimates, weights, sample size over time, rewards per arm, calibration."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import polars as pl

from treebandit.evaluation import effective_sample_size, sequence
from treebandit.reports.charts import Figure, inline, themed
from treebandit.reports.palette import SPARE

if TYPE_CHECKING:
    from treebandit.evaluation import Evaluation, PolicyValue

#: Moments at which sample sizes and intervals over time are drawn.
_MOMENTS = 40
#: Arms shown: those chosen most.
_MOST_ARMS = 40
_ESTIMATORS = ("#0072B2", "#D55E00", "#117755", "#CC3377", "#E69F00", "#56B4E9", "#6E6E6E", "#9A3C8E")

#: An axis of powers: a line at each of few.
_DECADES = alt.Axis(tickCount=5, format=",~g")


def evaluation_figures(evaluation: Evaluation) -> list[Figure]:
    """All figures that the evaluation has numbers for."""
    found = [
        _estimates(evaluation),
        _weights(evaluation),
        _sizes(evaluation),
        _over_time(evaluation),
        _arms(evaluation),
        _calibration(evaluation),
    ]
    return [figure for figure in found if figure is not None]


def _chart(rows: list[dict[str, Any]]) -> Any:
    return alt.Chart(inline(pl.DataFrame(rows, infer_schema_length=None)))


def _framed(chart: Any, height: int = 260) -> Any:
    sized = chart.properties(width="container", height=height)
    size = {
        "autosize": alt.AutoSizeParams(type="fit-x", contains="padding"),
        "padding": {
            "left": 5,
            "right": 18,
            "top": 5,
            "bottom": 5,
        },  # an axis' last label is wider than the chart
    }
    return themed(sized.configure(background="transparent", font="system-ui, sans-serif", **size))


def _moments(n: int) -> list[int]:
    return sorted(set(np.linspace(1, n, min(n, _MOMENTS)).astype(int).tolist()))


def _colours(evaluation: Evaluation, rows: list[dict[str, Any]]) -> Any:
    """One colour for each policy, the same in all figures; the legend has those that the rows are of."""
    every = [policy.name for policy in evaluation.policies]
    palette = dict(zip(every, itertools.cycle((*_ESTIMATORS, *SPARE)), strict=False))
    names = list(dict.fromkeys(row["policy"] for row in rows))
    scale = alt.Scale(domain=names, range=[palette[name] for name in names])
    legend = alt.Legend(orient="top", symbolOpacity=1, symbolStrokeWidth=3, columns=2, labelLimit=130)
    return alt.Color("policy:N", title=None, scale=scale, legend=legend)


def _estimates(evaluation: Evaluation) -> Figure | None:
    rows = []
    for policy in evaluation.policies:
        for name, estimate in policy.estimates.items():
            low, high = estimate.interval.low, estimate.interval.high
            known = bool(np.isfinite([low, high]).all())
            rows.append(
                {
                    "policy": policy.name,
                    "estimator": name,
                    "value": estimate.value,
                    "low": low if known else estimate.value,
                    "high": high if known else estimate.value,
                    "evidence": "enough" if policy.refusal is None else "not enough",
                }
            )
    if not rows:
        return None
    names = list(dict.fromkeys(row["estimator"] for row in rows))
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    colour = alt.Color(
        "estimator:N",
        title=None,
        scale=alt.Scale(domain=names, range=list(_ESTIMATORS[: len(names)])),
        legend=alt.Legend(orient="top", columns=4),
    )
    y = alt.Y("policy:N", title=None, sort=policies, axis=alt.Axis(labelLimit=150))
    x = alt.X("low:Q", title="mean reward per decision", scale=alt.Scale(zero=False))
    base = _chart(rows).encode(y=y, yOffset=alt.YOffset("estimator:N", sort=names), color=colour)
    faint = alt.condition("datum.evidence == 'enough'", alt.value(1.0), alt.value(0.35))
    tooltip = [
        alt.Tooltip("policy:N"),
        alt.Tooltip("estimator:N"),
        alt.Tooltip("value:Q", format=".4f"),
        alt.Tooltip("low:Q", format=".4f"),
        alt.Tooltip("high:Q", format=".4f"),
        alt.Tooltip("evidence:N"),
    ]
    bars = base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q", opacity=faint)
    dots = base.mark_point(filled=True, size=60).encode(x="value:Q", opacity=faint, tooltip=tooltip)
    logged = (
        _chart([{"mean": float(evaluation.reward.mean())}])
        .mark_rule(strokeDash=[4, 4], color="#8a8f98")
        .encode(x="mean:Q", tooltip=alt.Tooltip("mean:Q", title="mean reward of the log", format=".4f"))
    )
    height = max(120, len(policies) * max(2, len(names)) * 18)
    return Figure(
        "estimates",
        "Estimates",
        f"What each policy would have earned per decision, with {100 * evaluation.level:g} % {evaluation.interval} "
        "intervals. The dashed line is the mean reward of the log. Pale: not enough evidence, shown anyway.",
        [_framed(alt.layer(logged, bars, dots), height)],
    )


def _others(evaluation: Evaluation) -> list[PolicyValue]:
    return [policy for policy in evaluation.policies if len(policy.sample) and policy.kind != "LoggingPolicy"]


def _weights(evaluation: Evaluation) -> Figure | None:
    rows = []
    for policy in _others(evaluation):
        weight = policy.sample.weight
        positive = weight[weight > 0]
        if not len(positive) or np.ptp(weight) == 0:
            continue
        edges = np.floor(4 * np.log2(positive)) / 4
        steps, place = np.unique(edges, return_inverse=True)
        sums = np.bincount(place, positive) / positive.sum()
        counts = np.bincount(place) / len(weight)
        for step, total, count in zip(steps, sums, counts, strict=True):
            rows.append(
                {
                    "policy": policy.name,
                    "weight": float(2**step),
                    "share of the weight": float(total),
                    "share of the decisions": float(count),
                }
            )
    if not rows:
        return None
    panels = []
    for share in ("share of the decisions", "share of the weight"):
        base = _chart(rows).encode(
            x=alt.X("weight:Q", title="weight", scale=alt.Scale(type="log"), axis=_DECADES),
            y=alt.Y(f"{share}:Q", title=share, axis=alt.Axis(format="%")),
            color=_colours(evaluation, rows),
        )
        tips = ["policy:N", alt.Tooltip("weight:Q", format=".3g"), alt.Tooltip(f"{share}:Q", format=".2%")]
        stems = base.mark_rule(opacity=0.5).encode(y2=alt.datum(0))
        dots = base.mark_point(filled=True, size=40, opacity=1).encode(tooltip=tips)
        panels.append(_framed(alt.layer(stems, dots)))
    return Figure(
        "weights",
        "Weights",
        "The weight of a decision is the probability of its choice under the policy divided by the logged one. Where "
        "few decisions carry most of the weight, the estimate rests on them.",
        panels,
    )


def _sizes(evaluation: Evaluation) -> Figure | None:
    rows = []
    for policy in _others(evaluation):
        weight = policy.sample.weight
        for moment in _moments(len(weight)):
            size = effective_sample_size(weight[:moment])
            rows.append({"policy": policy.name, "decisions": moment, "effective": size})
    if not rows:
        return None
    lines = (
        _chart(rows)
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("decisions:Q", title="decisions, in the order of the log"),
            y=alt.Y("effective:Q", title="effective sample size"),
            color=_colours(evaluation, rows),
            tooltip=["policy:N", "decisions:Q", alt.Tooltip("effective:Q", format=",.0f")],
        )
    )
    least = _chart([{"least": 30}]).mark_rule(strokeDash=[4, 4], color="#8a8f98").encode(y="least:Q")
    return Figure(
        "sample-size",
        "Effective sample size over time",
        "How many decisions of the policy's own the log is worth so far; below 30 (dashed) there is no answer. "
        "A sudden fall is one decision of great weight.",
        [_framed(alt.layer(least, lines))],
    )


def _over_time(evaluation: Evaluation) -> Figure | None:
    least, most = float(min(evaluation.reward.min(), 0)), float(max(evaluation.reward.max(), 1))
    rows = []
    for policy in evaluation.policies:
        if policy.refusal is not None or "ips" not in policy.estimates:
            continue
        sample = policy.sample
        if sample.reward.min() < least or sample.reward.max() > most:
            continue
        found = sequence(
            sample.reward,
            sample.weight,
            reward_range=(least, most),
            level=evaluation.level,
            points=_MOMENTS // 2,
        )
        mean = np.cumsum(sample.weight * sample.reward) / np.arange(1, len(sample) + 1)
        rows += [
            {
                "policy": policy.name,
                "decisions": n,
                "ips": float(mean[n - 1]),
                "low": each.low,
                "high": each.high,
            }
            for n, each in found
        ]
    if not rows:
        return None
    base = _chart(rows).encode(
        x=alt.X("decisions:Q", title="decisions", scale=alt.Scale(type="log"), axis=_DECADES),
        color=_colours(evaluation, rows),
    )
    y = alt.Y("low:Q", title="mean reward per decision", scale=alt.Scale(zero=False))
    bands = base.mark_area(opacity=0.15).encode(y=y, y2="high:Q")
    lines = base.mark_line(strokeWidth=2, clip=True).encode(
        y="ips:Q",
        tooltip=[
            "policy:N",
            "decisions:Q",
            *(alt.Tooltip(f"{name}:Q", format=".4f") for name in ("ips", "low", "high")),
        ],
    )
    return Figure(
        "over-time",
        "IPS over time, and a band that may be looked at any time",
        f"With probability {100 * evaluation.level:g} % the band holds the true value at all times at once, for "
        f"rewards from {least:g} to {most:g}: stop whenever it is narrow enough.",
        [_framed(alt.layer(bands, lines))],
    )


def _arms(evaluation: Evaluation) -> Figure | None:
    rows = sorted(evaluation.log.arm_rewards(evaluation.arms), key=lambda row: -row["chosen"])
    if not rows:
        return None
    rest = max(0, len(rows) - _MOST_ARMS)
    rows = [
        row | {"low": row["mean"] - 1.96 * row["error"], "high": row["mean"] + 1.96 * row["error"]}
        for row in rows[:_MOST_ARMS]
    ]
    order = [row["arm"] for row in rows]
    y = alt.Y("arm:N", title=None, sort=order, axis=alt.Axis(labelLimit=150))
    base = _chart(rows).encode(y=y)
    tooltip = ["arm:N", "chosen:Q", alt.Tooltip("mean:Q", format=".4f")]
    bars = base.mark_rule(strokeWidth=2, color="#0072B2").encode(
        x=alt.X("low:Q", title="mean reward where it was chosen"), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=50, color="#0072B2").encode(x="mean:Q", tooltip=tooltip)
    counts = base.mark_bar(color="#A8A8A8").encode(x=alt.X("chosen:Q", title="times chosen"), tooltip=tooltip)
    height = max(90, 20 * len(rows))
    more = f" The {len(rows)} arms chosen most; {rest:,} others are not shown." if rest else ""
    return Figure(
        "arms",
        "Rewards per arm",
        "As logged, with 95 % intervals: the old policy chose when to play an arm, so these are no estimates of "
        f"always playing it.{more}",
        [_framed(alt.layer(bars, dots), height), _framed(counts, height)],
    )


def _calibration(evaluation: Evaluation) -> Figure | None:
    rows = [
        {
            "logged": row["logged"],
            "chosen": row["chosen"],
            "candidates": row["candidates"],
            "errors": row["errors"],
        }
        for row in evaluation.log.calibration
        if np.isfinite(row["errors"])
    ]
    if not rows:
        return None
    line = (
        _chart([{"at": 0.0}, {"at": 1.0}])
        .mark_line(strokeDash=[4, 4], color="#8a8f98")
        .encode(x=alt.X("at:Q", title="logged probability"), y=alt.Y("at:Q", title="share that was chosen"))
    )
    dots = (
        _chart(rows)
        .mark_point(filled=True, size=70, color="#0072B2")
        .encode(
            x="logged:Q",
            y="chosen:Q",
            tooltip=[
                *(alt.Tooltip(f"{name}:Q", format=".4f") for name in ("logged", "chosen")),
                alt.Tooltip("candidates:Q", format=",.0f"),
                alt.Tooltip("errors:Q", title="standard errors apart", format="+.1f"),
            ],
        )
    )
    return Figure(
        "calibration",
        "Are the logged probabilities true?",
        "Of the candidates that were said to be chosen with a probability, the share that was: on the line where "
        "probabilities are true.",
        [_framed(alt.layer(line, dots))],
    )
