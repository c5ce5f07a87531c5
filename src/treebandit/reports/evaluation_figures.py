"""Figures of an off-policy evaluation: estimates, weights, sample size over time, rewards per arm, calibration."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import polars as pl

from treebandit.evaluation import effective_sample_size, sequence
from treebandit.reports.charts import Figure, inline, on_page
from treebandit.reports.evaluation_terminal import estimate_text, interval_text, numbers
from treebandit.reports.palette import SPARE

if TYPE_CHECKING:
    from treebandit.evaluation import Estimated, Evaluation, PolicyValue

#: Moments at which sample sizes and intervals over time are drawn.
_MOMENTS = 40
#: Arms shown: those chosen most.
_MOST_ARMS = 40
_ESTIMATORS = ("#0072B2", "#D55E00", "#117755", "#CC3377", "#E69F00", "#56B4E9", "#6E6E6E", "#9A3C8E")

#: An axis of powers: a line at each of few.
_DECADES = alt.Axis(tickCount=5, format=",~g")
_ONE_COLOUR = "#0072B2"
#: A line to measure others by.
_DASHED = {"strokeDash": [4, 4], "color": "#8a8f98"}


def evaluation_figures(evaluation: Evaluation) -> list[Figure]:
    """All figures that the evaluation has numbers for."""
    drawn = (_estimates, _weights, _sizes, _over_time, _arms, _calibration)
    return [figure for draw in drawn if (figure := draw(evaluation)) is not None]


def _chart(rows: list[dict[str, Any]]) -> Any:
    return alt.Chart(inline(pl.DataFrame(rows, infer_schema_length=None)))


def _framed(chart: Any, height: int = 260) -> Any:
    return on_page(chart.properties(width="container", height=height))


def _tips(*names: str, form: str) -> list[Any]:
    return [alt.Tooltip(f"{name}:Q", format=form) for name in names]


def _with_texts(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Rows with a number and its interval as text besides, with the decimals that they need."""
    return [row | {"text": interval_text(row[name], row["low"], row["high"])} for row in rows]


def _values(rows: list[dict[str, Any]], column: str) -> list[str]:
    """The different values of a column, in the order in which they come."""
    return list(dict.fromkeys(row[column] for row in rows))


def _colours(evaluation: Evaluation, rows: list[dict[str, Any]]) -> Any:
    """One colour for each policy, the same in all figures; the legend has those that the rows are of."""
    every = [policy.name for policy in evaluation.policies]
    palette = dict(zip(every, itertools.cycle((*_ESTIMATORS, *SPARE)), strict=False))
    names = _values(rows, "policy")
    scale = alt.Scale(domain=names, range=[palette[name] for name in names])
    legend = alt.Legend(orient="top", symbolOpacity=1, symbolStrokeWidth=3, columns=2, labelLimit=130)
    return alt.Color("policy:N", title=None, scale=scale, legend=legend)


def _estimates(evaluation: Evaluation) -> Figure | None:
    rows = [
        {"policy": policy.name, "estimator": name, **_limits(estimate)}
        | {
            "text": " ".join(estimate_text(estimate)),
            "evidence": "enough" if policy.refusal is None else "not enough",
        }
        for policy in evaluation.policies
        for name, estimate in policy.estimates.items()
    ]
    if not rows:
        return None
    names, policies = _values(rows, "estimator"), _values(rows, "policy")
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
    tooltip = ["policy:N", "estimator:N", alt.Tooltip("text:N", title="value"), "evidence:N"]
    bars = base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q", opacity=faint)
    dots = base.mark_point(filled=True, size=60).encode(x="value:Q", opacity=faint, tooltip=tooltip)
    mean = float(evaluation.reward.mean())
    logged = (
        _chart([{"mean": mean}])
        .mark_rule(**_DASHED)
        .encode(x="mean:Q", tooltip=alt.value(f"mean reward of the log: {numbers(mean)[0]}"))
    )
    height = max(120, len(policies) * max(2, len(names)) * 18)
    return Figure(
        "estimates",
        "Estimates",
        f"What each policy would have earned per decision, with {100 * evaluation.level:g} % {evaluation.interval} "
        "intervals. The dashed line is the mean reward of the log. Pale: not enough evidence, shown anyway.",
        [_framed(alt.layer(logged, bars, dots), height)],
    )


def _limits(estimate: Estimated) -> dict[str, float]:
    """An estimate and its limits; where these are not known, the estimate itself."""
    limits = estimate.interval.low, estimate.interval.high
    low, high = limits if np.isfinite(limits).all() else (estimate.value, estimate.value)
    return {"value": estimate.value, "low": low, "high": high}


def _others(evaluation: Evaluation) -> list[PolicyValue]:
    return [policy for policy in evaluation.policies if len(policy.sample) and policy.kind != "LoggingPolicy"]


#: Of those of about one weight: of all decisions, and of all weight.
_SHARES = ("share of the decisions", "share of the weight")


def _weights(evaluation: Evaluation) -> Figure | None:
    rows = []
    for policy in _others(evaluation):
        weight = policy.sample.weight
        positive = weight[weight > 0]
        if not len(positive) or np.ptp(weight) == 0:
            continue
        steps, place = np.unique(np.floor(4 * np.log2(positive)) / 4, return_inverse=True)
        shares = np.bincount(place) / len(weight), np.bincount(place, positive) / positive.sum()
        rows += [
            {"policy": policy.name, "weight": 2.0**step, _SHARES[0]: count, _SHARES[1]: total}
            for step, count, total in zip(steps, *shares, strict=True)
        ]
    if not rows:
        return None
    panels = []
    for share in _SHARES:
        base = _chart(rows).encode(
            x=alt.X("weight:Q", title="weight", scale=alt.Scale(type="log"), axis=_DECADES),
            y=alt.Y(f"{share}:Q", title=share, axis=alt.Axis(format="%")),
            color=_colours(evaluation, rows),
        )
        tips = ["policy:N", *_tips("weight", form=".3g"), *_tips(share, form=".2%")]
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
    rows = [
        {"policy": each.name, "decisions": n, "effective": effective_sample_size(each.sample.weight[:n])}
        for each in _others(evaluation)
        for n in np.unique(np.linspace(1, len(each.sample), _MOMENTS).astype(int)).tolist()
    ]
    if not rows:
        return None
    lines = _chart(rows).mark_line(strokeWidth=2)
    lines = lines.encode(
        x=alt.X("decisions:Q", title="decisions, in the order of the log"),
        y=alt.Y("effective:Q", title="effective sample size"),
        color=_colours(evaluation, rows),
        tooltip=["policy:N", "decisions:Q", *_tips("effective", form=",.0f")],
    )
    least = _chart([{"least": 30}]).mark_rule(**_DASHED).encode(y="least:Q")
    return Figure(
        "sample-size",
        "Effective sample size over time",
        "How many decisions of the policy's own the log is worth so far; below 30 (dashed) there is no answer. "
        "A sudden fall is one decision of great weight.",
        [_framed(alt.layer(least, lines))],
    )


def _over_time(evaluation: Evaluation) -> Figure | None:
    rows, spans = [], []
    for policy in evaluation.policies:
        if policy.refusal is not None or "ips" not in policy.estimates:
            continue
        sample = policy.sample
        span, level = policy.reward_range, evaluation.level
        spans.append(span)
        found = sequence(sample.reward, sample.weight, reward_range=span, level=level, points=_MOMENTS // 2)
        mean = np.cumsum(sample.weight * sample.reward) / np.arange(1, len(sample) + 1)
        rows += [
            {"policy": policy.name, "decisions": n, "ips": mean[n - 1], "low": band.low, "high": band.high}
            for n, band in found
        ]
    if not rows:
        return None
    base = _chart(_with_texts(rows, "ips")).encode(
        x=alt.X("decisions:Q", title="decisions", scale=alt.Scale(type="log"), axis=_DECADES),
        color=_colours(evaluation, rows),
    )
    y = alt.Y("low:Q", title="mean reward per decision", scale=alt.Scale(zero=False))
    bands = base.mark_area(opacity=0.15).encode(y=y, y2="high:Q")
    tooltip = ["policy:N", "decisions:Q", alt.Tooltip("text:N", title="ips")]
    lines = base.mark_line(strokeWidth=2, clip=True).encode(y="ips:Q", tooltip=tooltip)
    return Figure(
        "over-time",
        "IPS over time, and a band that may be looked at any time",
        f"With probability {100 * evaluation.level:g} % the band holds the true value at all times at once, for "
        f"rewards from {min(spans)[0]:g} to {max(most for _, most in spans):g}: stop whenever it is narrow enough.",
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
    y = alt.Y("arm:N", title=None, sort=_values(rows, "arm"), axis=alt.Axis(labelLimit=150))
    base = _chart(_with_texts(rows, "mean")).encode(y=y)
    tooltip = ["arm:N", "chosen:Q", alt.Tooltip("text:N", title="mean")]
    x = alt.X("low:Q", title="mean reward where it was chosen")
    bars = base.mark_rule(strokeWidth=2, color=_ONE_COLOUR).encode(x=x, x2="high:Q")
    dots = base.mark_point(filled=True, size=50, color=_ONE_COLOUR).encode(x="mean:Q", tooltip=tooltip)
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
    rows = [row for row in evaluation.log.calibration if np.isfinite(row["z"])]
    if not rows:
        return None
    x, y = alt.X("at:Q", title="logged probability"), alt.Y("at:Q", title="share that was chosen")
    line = _chart([{"at": 0.0}, {"at": 1.0}]).mark_line(**_DASHED).encode(x=x, y=y)
    apart = alt.Tooltip("errors:Q", title="standard errors apart", format="+.1f")
    tooltip = [*_tips("logged", "chosen", form=".4g"), *_tips("candidates", form=",.0f"), apart]
    dots = _chart(rows).mark_point(filled=True, size=70, color=_ONE_COLOUR)
    dots = dots.encode(x="logged:Q", y="chosen:Q", tooltip=tooltip)
    return Figure(
        "calibration",
        "Are the logged probabilities true?",
        "Of the candidates that were said to be chosen with a probability, the share that was: on the line where "
        "probabilities are true.",
        [_framed(alt.layer(line, dots))],
    )
