"""Final regret, intervals, ranks and time: one row per agent and environment."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from scipy.special import stdtrit

from treebandit import environments
from treebandit.errors import SavedFileError
from treebandit.experiments.records import load_plan, load_runs
from treebandit.registry import public_names
from treebandit.reports.palette import in_order
from treebandit.reports.paper import paper_table

if TYPE_CHECKING:
    from treebandit.reports.routes import RouteMap

CONFIDENCE = 0.95
#: Two seeds show nothing: Student's factor is 12.7 there, and everything would be a tie.
LEAST_SHARED = 3
#: Unit of the regret where neither record nor class name one.
UNIT = "units of reward"
LONGEST_UNIT = 30
_NAMES = ["agent", "environment", "varied", "value"]
GROUP = ["agent", "environment", "rounds", "varied", "value"]
#: Within these, agents (and values of a varied parameter) are ranked against each other.
CONTEST = ["environment", "rounds", "varied"]
_VARIED = {"varied", "value"}
_PER_RUN = {"run_id", "seed", "study", "rounds", "varied", "value"}


@dataclass(frozen=True)
class Results:
    """What a folder of records holds, and how much of what was asked for that is.

    folder: where the records lie.
    runs: one row per finished run that counts, as `load_runs` gives them.
    plan: one row per run asked for; empty where the folder has none.
    left_out: how many finished runs do not count, because the study now asks for other settings.
    curve: run_id, round, cumulative regret at few rounds, where there are no records to read them from.

    >>> from treebandit.experiments import RunSpec, play, write_record
    >>> agent = {"name": "LinUCB", "class": "LinUCB"}
    >>> environment = {"name": "mushroom", "class": "Classification", "data": "mushroom"}
    >>> path = write_record(play(RunSpec(agent, environment, seed=0, rounds=20)), "results")
    >>> from treebandit.reports import read_results, summarise
    >>> summarise(read_results("results"))["agent"].to_list()
    ['LinUCB']
    """

    folder: Path
    runs: pl.DataFrame
    plan: pl.DataFrame
    left_out: int = 0
    curve: pl.DataFrame | None = None

    @property
    def expected(self) -> int:
        """Number of runs asked for, finished or not."""
        return self.plan["run_id"].n_unique() if self.plan.height else self.runs.height

    @property
    def missing(self) -> pl.DataFrame:
        """How many runs are still to come: agent, environment, varied, value, runs."""
        return (
            self.plan.unique("run_id")
            .join(self.runs, on="run_id", how="anti")
            .group_by(_NAMES)
            .agg(pl.len().alias("runs"))
            .sort(_NAMES)
        )

    @property
    def stale(self) -> str:
        """A sentence on the runs that other code made; "" where there are none."""
        reasons = self.runs.filter("stale")["other_code"].to_list()
        if not reasons:
            return ""
        counts = ", ".join(f"{reason}: {reasons.count(reason):,}" for reason in sorted(set(reasons)))
        return (
            f"{len(reasons):,} of {self.runs.height:,} runs are stale, made by other code ({counts}). "
            f"`treebandit run STUDY --into {self.folder} --again` plays them anew."
        )

    @property
    def complete(self) -> bool:
        """Whether all runs asked for are there, played by the code of today."""
        return self.runs.height >= self.expected and not self.stale

    @cached_property
    def maps(self) -> tuple[list[RouteMap], list[str]]:
        """What `route_maps` finds, read once."""
        from treebandit.reports.routes import route_maps

        return route_maps(self)

    @cached_property
    def units(self) -> dict[str, str]:
        """The unit of the regret on each problem: as its records or its class declare it, else UNIT."""
        firsts = self.runs.unique("environment", maintain_order=True)
        return {
            name: _unit(json.loads(spec)["environment"], json.loads(provenance))
            for name, spec, provenance in firsts.select("environment", "spec", "provenance").iter_rows()
        }

    def progress(self) -> str:
        """How far the study is, in a sentence or two."""
        done, expected = self.runs.height, self.expected
        text = f"{done:,} of {expected:,} runs are finished"
        text += "; means are of those so far." if done < expected else "."
        if self.left_out:
            text += f" Left out, since the study now asks for other settings: {self.left_out:,}."
        return f"{text} {self.stale}".rstrip()


def read_results(folder: str | Path) -> Results:
    """The finished runs of a folder that its studies ask for."""
    runs = load_runs(folder)
    wanted = _printable(runs.filter(pl.col("planned")))
    left_out = runs.height - wanted.height
    if wanted.is_empty():
        others = f" ({left_out:,} of earlier settings)" * bool(left_out)
        raise SavedFileError(
            f"no finished run in {folder}{others}; run: treebandit run STUDY --into {folder}, with quick for STUDY "
            "or your own study"
        )
    runs = _separated(wanted)
    # Asked for with more rounds than its environment has, a run is the same as with fewer. Taken for another seed, it
    # would make sd and intervals too small.
    first = pl.col("run_id").sort_by("stale").first().over(*GROUP, "seed")
    repeated = pl.col("run_id").is_in(runs.filter(pl.col("run_id") != first)["run_id"].implode())
    plan = _printable(load_plan(folder)).filter(~repeated)
    return Results(Path(folder), runs.filter(~repeated), plan, left_out)


def _printable(frame: pl.DataFrame) -> pl.DataFrame:
    """Names without line breaks and control characters, which could write anywhere on a terminal."""
    names = {"study", *_NAMES, "note", "title", "source", "other_code"} & set(frame.columns)
    unprintable = r"[\p{C}\p{Zl}\p{Zp}]"
    return frame.with_columns(pl.col(*names).str.replace_all(unprintable, "\N{REPLACEMENT CHARACTER}"))


def _unit(environment: dict[str, Any], provenance: dict[str, Any]) -> str:
    given, kind = provenance.get("unit"), environment.get("class")
    if not given and isinstance(kind, str) and kind in public_names(environments.__name__):
        given = getattr(getattr(environments, kind), "unit", None)
    fits = isinstance(given, str) and given.isprintable() and 0 < len(given) <= LONGEST_UNIT
    return str(given) if fits else UNIT


def summarise(source: str | Path | Results) -> pl.DataFrame:
    """One row per agent, environment, number of rounds and, where a parameter is varied, its value.

    regret_mean, regret_sd: of the final regret over the seeds; the sd of a single seed is null.
    regret_low, regret_high: Student's 95 % interval of the mean.
    rank, best: by mean, among all rows of the environment; tied: the paired difference to the best over the
    seeds both have played is within noise (its 95 % interval holds 0), null where they share fewer than three.
    choosing, learning, rebuilding: seconds a run, learning without the rebuilding it triggers.
    paper_mean, paper_sd, paper_cpu_seconds, paper_gpu_seconds: the paper's table, where agent, environment and rounds
    agree and no parameter is varied.
    """
    results = source if isinstance(source, Results) else read_results(source)
    frame = _with_interval(_means(results.runs))
    frame = frame.with_columns(
        pl.col("regret_mean").rank("min").over(CONTEST).cast(pl.Int64).alias("rank"),
    ).with_columns((pl.col("rank") == 1).alias("best"))
    frame = _with_ties(frame, results.runs)
    same = ["agent", "environment", "rounds", "varied"]
    paper = paper_table().with_columns(pl.lit(None, pl.String).alias("varied"))
    frame = frame.join(paper, on=same, how="left", nulls_equal=True, maintain_order="left")
    return _in_reading_order(frame)


def as_json(frame: pl.DataFrame) -> str:
    """A summary as a JSON list, one object per row; `varied` and `value` only where a parameter is varied."""
    rows = [
        {name: _plain(cell) for name, cell in row.items() if not (row["varied"] is None and name in _VARIED)}
        for row in frame.to_dicts()
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False)


def _plain(cell: Any) -> Any:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _separated(runs: pl.DataFrame) -> pl.DataFrame:
    """Rename agents that share a name but not their settings, so that no mean mixes them."""
    settings = pl.col("spec").map_elements(_settings, return_dtype=pl.String)
    runs = runs.with_columns(settings.alias("settings"))
    several = pl.col("settings").n_unique().over(GROUP) > 1
    pairs = pl.struct("study", "settings").n_unique().over(GROUP)
    label = pl.when(pairs == pl.col("study").n_unique().over(GROUP)).then("study").otherwise("settings")
    named = pl.when(several).then(pl.format("{} ({})", "agent", label)).otherwise("agent")
    return runs.with_columns(named.alias("agent")).drop("settings")


def _settings(spec: str) -> str:
    content = {name: part for name, part in json.loads(spec).items() if name not in _PER_RUN}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:6]


def _means(runs: pl.DataFrame) -> pl.DataFrame:
    return runs.group_by(GROUP, maintain_order=True).agg(
        pl.col("seed").n_unique().cast(pl.Int64).alias("seeds"),
        pl.col("final_regret").mean().alias("regret_mean"),
        pl.col("final_regret").std(ddof=1).alias("regret_sd"),
        pl.col("cpu_seconds").mean().alias("cpu_seconds_mean"),
        pl.col("choosing").mean(),
        pl.col("learning").mean(),
        pl.col("rebuilding").mean(),
        pl.col("note").filter(pl.col("note") != "").unique(maintain_order=True).str.join("; ").alias("note"),
    )


def _with_interval(frame: pl.DataFrame) -> pl.DataFrame:
    half = _half_width(frame["regret_sd"], frame["seeds"])
    return frame.with_columns(
        (pl.col("regret_mean") - half).alias("regret_low"),
        (pl.col("regret_mean") + half).alias("regret_high"),
    )


def _half_width(sd: pl.Series, count: pl.Series) -> pl.Series:
    """Half of Student's interval, t(n-1) sd / sqrt(n); null for a single seed."""
    factor = pl.Series(stdtrit(count.to_numpy() - 1, 0.5 + CONFIDENCE / 2)).fill_nan(None)
    return factor * sd / count.sqrt()


def _with_ties(frame: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    best = frame.filter("best").unique(CONTEST, keep="first", maintain_order=True)
    scores = runs.select(*GROUP, "seed", "final_regret")
    best_scores = scores.join(best.select(GROUP), on=GROUP, nulls_equal=True, how="semi").select(
        *CONTEST, "seed", pl.col("final_regret").alias("best_regret")
    )
    gap = pl.col("final_regret") - pl.col("best_regret")
    shared = scores.join(best_scores, on=[*CONTEST, "seed"], nulls_equal=True).group_by(GROUP)
    gaps = shared.agg(gap.mean().alias("mean"), gap.std(ddof=1).alias("sd"), pl.len().alias("shared"))
    within = pl.col("mean").is_finite() & (pl.col("mean").abs() <= _half_width(gaps["sd"], gaps["shared"]))
    tied = pl.when(pl.col("shared") >= LEAST_SHARED).then(within).alias("tied")
    frame = frame.join(
        gaps.select(*GROUP, tied), on=GROUP, nulls_equal=True, how="left", maintain_order="left"
    )
    return frame.with_columns(pl.when("best").then(False).otherwise("tied").alias("tied"))


def _in_reading_order(frame: pl.DataFrame) -> pl.DataFrame:
    agents = {name: place for place, name in enumerate(in_order(frame["agent"].to_list()))}
    place = pl.col("agent").replace_strict(agents, return_dtype=pl.Int64)
    number = pl.col("value").cast(pl.Float64, strict=False)
    order = [pl.col("environment"), pl.col("rounds"), pl.col("varied"), place, number, pl.col("value")]
    return frame.sort(order, nulls_last=True, maintain_order=True).select(
        *GROUP, "seeds", "regret_mean", "regret_sd", "cpu_seconds_mean", "regret_low", "regret_high",
        "rank", "best", "tied", "choosing", "learning", "rebuilding",
        "paper_mean", "paper_sd", "paper_cpu_seconds", "paper_gpu_seconds", "note",
    )  # fmt: skip
