"""The numbers behind the figures: thinned curves, seconds a round, and places on a sensitivity axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

PARTS = ("choosing", "learning", "rebuilding")
#: Rounds drawn of one curve, at most and at least; and of all curves of a page that is to stay small.
MOST_POINTS, LEAST_POINTS, ALL_POINTS = 200, 60, 9000
SHIFTED_SHARE = 0.55


def panels(frame: pl.DataFrame) -> list[tuple[str, int, str]]:
    """The panels of a figure: environment, rounds and title, one for each pair that was played."""
    pairs = frame.select("environment", "rounds").unique().sort(pl.all()).iter_rows()
    return [(name, rounds, f"{name}, {rounds:,} rounds") for name, rounds in pairs]


def in_panel(frame: pl.DataFrame, environment: str, rounds: int) -> pl.DataFrame:
    """The rows of one panel."""
    return frame.filter(pl.col("environment") == environment, pl.col("rounds") == rounds)


def curves(
    runs: pl.DataFrame, rounds: pl.DataFrame, *, points: int | None = None, thinned: bool = False
) -> pl.DataFrame:
    """Mean and sd of the cumulative regret over the seeds, at no more than `points` rounds per curve.

    By default there are 200 points per curve, and fewer where there are many curves. thinned: the rounds are few
    already, and all are drawn.

    Columns: agent, environment, rounds (of the panel), round, seeds, mean, sd, low, high; low and high are mean ∓ sd.
    """
    plain = runs.filter(pl.col("varied").is_null()).select("run_id", "agent", "environment", "rounds")
    lengths = plain["rounds"].unique().to_list()
    if points is None:
        several = plain.select("agent", "environment", "rounds").n_unique()
        points = max(LEAST_POINTS, min(MOST_POINTS, ALL_POINTS // several))
    kept = pl.DataFrame(
        [(length, place) for length in lengths for place in _evenly_spaced(length, points)],
        schema={"rounds": pl.Int64, "round": rounds.schema["round"]},
        orient="row",
    )
    if thinned:
        drawn = rounds.join(plain, on="run_id")
    else:
        few = rounds.filter(pl.col("round").is_in(kept["round"].unique().implode()))
        drawn = few.join(plain, on="run_id").join(kept, on=["rounds", "round"], how="semi")
    return (
        drawn.group_by("agent", "environment", "rounds", "round")
        .agg(
            pl.len().alias("seeds"),
            pl.col("cumulative").mean().alias("mean"),
            pl.col("cumulative").std(ddof=1).fill_null(0.0).alias("sd"),
        )
        .with_columns(
            (pl.col("mean") - pl.col("sd")).clip(0.0).alias("low"),
            (pl.col("mean") + pl.col("sd")).alias("high"),
        )
        .join(_panel_rounds(plain), on=["agent", "environment", "rounds"])
        .drop("rounds")
        .rename({"panel": "rounds"})
        .sort("environment", "rounds", "agent", "round")
    )


def _panel_rounds(runs: pl.DataFrame) -> pl.DataFrame:
    """In which panel (`panel`, a number of rounds) the curves of so many rounds are drawn.

    An agent whose longest runs are shorter than the others' joins them there, and its curve ends early.
    """
    most, mine = (
        pl.col("rounds").max().over("environment"),
        pl.col("rounds").max().over("environment", "agent"),
    )
    panel = pl.when(pl.col("rounds") == mine).then(most).otherwise(pl.col("rounds"))
    return runs.select("agent", "environment", "rounds", panel.alias("panel")).unique()


def odd_ones(curves: pl.DataFrame, rounds: int) -> list[str]:
    """Sentences on the agents of a panel that have fewer rounds than it, or other seeds than most agents."""
    ends = curves.group_by("agent").agg(pl.col("round").max(), pl.col("seeds").max()).sort("agent")
    usual = ends.filter(pl.col("round") == rounds)["seeds"].mode(maintain_order=True).max()
    groups: dict[tuple[int, int], list[str]] = {}
    for agent, end, seeds in ends.iter_rows():
        if (end, seeds) != (rounds, usual):
            groups.setdefault((end, seeds), []).append(agent)
    return [
        f"{_first_few(names)}: {end:,} rounds, {seeds} seed{'s' * (seeds > 1)}"
        for (end, seeds), names in groups.items()
    ]


def _first_few(names: list[str]) -> str:
    return ", ".join(names[:3]) + f" and {len(names) - 3} more" * (len(names) > 3)


def with_band(summary: pl.DataFrame) -> pl.DataFrame:
    """A summary with mean, sd, low and high of the final regret; low and high are mean ∓ sd."""
    sd = pl.col("regret_sd").fill_null(0.0)
    return summary.with_columns(
        pl.col("regret_mean").alias("mean"),
        sd.alias("sd"),
        (pl.col("regret_mean") - sd).alias("low"),
        (pl.col("regret_mean") + sd).alias("high"),
    )


def milliseconds(amount: float) -> str:
    """Milliseconds in words, two figures below 100."""
    return f"{amount:,.0f} ms" if amount >= 100 else f"{amount:.2g} ms"


def _evenly_spaced(length: int, points: int) -> list[int]:
    """At most `points` rounds from 1 to `length`, evenly spread, both ends among them."""
    if length <= points:
        return list(range(1, length + 1))
    return sorted({1 + round(place * (length - 1) / (points - 1)) for place in range(points)})


def seconds_per_round(summary: pl.DataFrame) -> pl.DataFrame:
    """Milliseconds a round, one row per agent and part, with the part's share of the total."""
    return (
        summary.filter(pl.col("varied").is_null())
        .with_columns([pl.col(part) * 1e3 / pl.col("rounds") for part in PARTS])
        .with_columns(pl.sum_horizontal(PARTS).alias("total"))
        .unpivot(
            PARTS, index=["agent", "environment", "rounds", "total"], variable_name="part", value_name="ms"
        )
        .with_columns(
            pl.when(pl.col("total") > 0).then(pl.col("ms") / pl.col("total")).otherwise(0.0).alias("share")
        )
    )


@dataclass(frozen=True)
class ValueAxis:
    """Where the values of a varied parameter stand.

    places: value -> place on the axis. Numbers stand at themselves, or at their logarithm where they span
    more than a decade; 0 then stands one step left of the least. Words stand to the right of all numbers.
    joined: the values at their true place, between which a line may be drawn.
    """

    places: dict[str, float]
    logarithmic: bool
    joined: frozenset[str]

    @property
    def step(self) -> float:
        """The least distance of two neighbours."""
        places = sorted(set(self.places.values()))
        return min((b - a for a, b in pairwise(places)), default=1.0)

    def shift(self, place: int, of: int) -> float:
        """How far the agent in `place` of so many stands sideways, so that bars do not cover each other."""
        return self.step * SHIFTED_SHARE * (place - (of - 1) / 2) / max(of, 1)


def value_axis(values: list[str]) -> ValueAxis:
    """Find a place for every value; words come in the order of the number they begin with, or as they come."""
    numbers = {value: number for value in values if (number := _number(value)) is not None}
    words = sorted((value for value in dict.fromkeys(values) if value not in numbers), key=_first_number)
    positive = [number for number in numbers.values() if number > 0]
    logarithmic = bool(positive) and min(numbers.values()) >= 0 and max(positive) > 10 * min(positive)
    places = {
        value: math.log10(number) if logarithmic else number
        for value, number in numbers.items()
        if number > 0 or not logarithmic
    }
    joined = frozenset(places)
    step = _usual_step(sorted(set(places.values())))
    least, greatest = min(places.values(), default=0.0), max(places.values(), default=-step)
    places |= {value: least - step for value, number in numbers.items() if logarithmic and number == 0}
    places |= {value: greatest + step * (1 + place) for place, value in enumerate(words)}
    return ValueAxis(dict(sorted(places.items(), key=lambda item: item[1])), logarithmic, joined)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _first_number(words: str) -> float:
    """The number that words begin with ('8 ln t'); infinity where there is none."""
    number = _number(words.partition(" ")[0])
    return math.inf if number is None else number


def _usual_step(places: list[float]) -> float:
    gaps = sorted(b - a for a, b in pairwise(places))
    return max(gaps[len(gaps) // 2], sum(gaps) / 8) if gaps else 1.0
