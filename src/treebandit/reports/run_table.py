"""All runs of a folder as one small table, to be kept where their records are not; tables and figures come from it.

One line per run: what was played, CPU seconds, versions, and the regret after each twentieth of its rounds.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from treebandit.errors import SavedFileError
from treebandit.experiments.records import PLAN_SCHEMA, ROUNDS_SCHEMA, RUNS_SCHEMA, load_records
from treebandit.files import write_whole
from treebandit.reports.summary import Results, read_results

POINTS = 20
_AT = [f"regret_{place}" for place in range(1, POINTS + 1)]
_COPIED = ["run_id", "study", "agent", "environment", "seed", "rounds", "varied", "value", "note"]
_LABEL = ["study", "agent", "environment", "rounds", "varied", "value"]
_SECONDS = ["cpu_seconds", "choosing", "learning", "rebuilding"]
_TEXTS = [*_COPIED[:4], "varied", "value", "note", "started", "problem", "unit", "versions"]
_COLUMNS = [*_COPIED, *_SECONDS, "started", "problem", "unit", "versions", *_AT]


def write_run_table(source: str | Path | Results, file: str | Path) -> Path:
    """Write the runs of a folder that count as CSV, sorted; runs that a table there holds already are kept.

    So a long study may be played in parts, on several machines or after its records are gone. Where a run is there with
    another id, agent or environment have other settings now: all earlier runs of both are left out then.
    """
    results = source if isinstance(source, Results) else read_results(source)
    _, rounds = load_records(results.folder)
    at = rounds.group_by("run_id").agg(
        pl.col("cumulative")
        .filter(pl.col("round") == _round_at(pl.col("round").max(), place))
        .first()
        .pipe(_rounded)
        .alias(name)
        for place, name in enumerate(_AT, start=1)
    )
    described = results.runs.with_columns(
        pl.col("started").str.slice(0, 10),
        pl.col("spec").map_elements(_problem, return_dtype=pl.String).alias("problem"),
        pl.col("environment").replace_strict(results.units, return_dtype=pl.String).alias("unit"),
        pl.col("provenance").map_elements(_versions, return_dtype=pl.String).alias("versions"),
        pl.col(_SECONDS).round(3),
    )
    table = described.join(at, on="run_id").select(_COLUMNS)
    if Path(file).exists():
        earlier = _read(file).select(_COLUMNS)
        changed = earlier.join(table, on=[*_LABEL, "seed"], how="inner", nulls_equal=True).filter(
            pl.col("run_id") != pl.col("run_id_right")
        )
        kept = earlier.join(table, on="run_id", how="anti")
        kept = kept.join(changed, on=_LABEL, how="anti", nulls_equal=True)
        table = pl.concat([table, kept.cast(dict(table.schema))])  # type: ignore[arg-type]
    order = ["study", "agent", "environment", "value", "seed", "run_id"]
    return write_whole(Path(file), table.sort(order).write_csv().encode())


def read_run_table(file: str | Path) -> Results:
    """What `write_run_table` wrote, for `summarise`, tables and all figures but maps."""
    table = _read(file)
    spec = pl.lit('{"environment":') + pl.col("problem") + pl.lit("}")
    runs = table.with_columns(
        pl.col("note").fill_null(""),
        pl.col(_AT[-1]).alias("final_regret"),
        spec.alias("spec"),
        pl.struct("unit", "versions").struct.json_encode().alias("provenance"),
        pl.lit(0.0).alias("duration"),
        pl.lit(True).alias("planned"),
        pl.lit(False).alias("stale"),
        pl.lit("").alias("other_code"),
    )
    curve = table.unpivot(_AT, index=["run_id", "rounds"], variable_name="place", value_name="cumulative")
    place = pl.col("place").str.strip_prefix("regret_").cast(pl.Int64)
    curve = curve.select(
        "run_id",
        _round_at(pl.col("rounds"), place).cast(ROUNDS_SCHEMA["round"]).alias("round"),
        pl.col("cumulative").cast(pl.Float64),
    )
    whole = runs.select(pl.col(name).cast(kind) for name, kind in RUNS_SCHEMA.items())
    return Results(Path(file).parent, whole, pl.DataFrame(schema=PLAN_SCHEMA), curve=curve)


def played_runs(file: str | Path) -> frozenset[str]:
    """The ids of the runs in a table."""
    return frozenset(_read(file)["run_id"])


def _read(file: str | Path) -> pl.DataFrame:
    if not Path(file).is_file():
        raise SavedFileError(f"there is no table of runs {file}; `write_run_table` writes one")
    try:
        table = pl.read_csv(file, glob=False, schema_overrides=dict.fromkeys(_TEXTS, pl.String))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SavedFileError(f"{file} is no table of runs: {error}") from error
    missing = [name for name in _COLUMNS if name not in table.columns]
    if missing:
        raise SavedFileError(f"{file} is no table of runs: it has no column {missing[0]!r}")
    return table


def _rounded(regret: pl.Expr) -> pl.Expr:
    """To a tenth; small numbers to four digits, whatever their unit."""
    return pl.when(regret.abs() < 100).then(regret.round_sig_figs(4)).otherwise(regret.round(1))


def _round_at(rounds: pl.Expr, place: int | pl.Expr) -> pl.Expr:
    """The round of the k-th column, ⌈k n / 20⌉ of n: the last one holds the final regret."""
    return (rounds * place + POINTS - 1) // POINTS


def _problem(spec: str) -> str:
    return json.dumps(json.loads(spec)["environment"], sort_keys=True, separators=(",", ":"))


def _versions(provenance: str) -> str:
    """Of Python, this package and its libraries, in a few words."""
    content = json.loads(provenance)
    machine, packages = content.get("machine", {}), content.get("packages", {})
    found = {"treebandit": content.get("treebandit"), "python": machine.get("python"), **packages}
    return " ".join(f"{name} {version}" for name, version in found.items() if version)
