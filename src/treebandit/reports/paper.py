"""The paper's own table, to stand beside ours."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import polars as pl

SECONDS_PER_HOUR = 3600.0

_SCHEMA = {
    "agent": pl.String,
    "environment": pl.String,
    "rounds": pl.Int64,
    "paper_mean": pl.Float64,
    "paper_sd": pl.Float64,
    "paper_cpu_seconds": pl.Float64,
    "paper_gpu_seconds": pl.Float64,
}


def paper_table() -> pl.DataFrame:
    """One row per agent and data set of the paper: its rounds, mean, sd, CPU seconds, and GPU seconds or null."""
    content = _content()
    rows = [
        (agent, environment, content["rounds"][environment], mean, sd, *_seconds(*hours))
        for agent, environments in content["agents"].items()
        for environment, (mean, sd, *hours) in environments.items()
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def paper_agents() -> tuple[str, ...]:
    """The agents of the paper's table, in its order."""
    return tuple(_content()["agents"])


def paper_citation() -> str:
    """The paper, as one line."""
    return str(_content()["citation"])


def _seconds(cpu_hours: float, gpu_hours: float | None = None) -> tuple[float, float | None]:
    return cpu_hours * SECONDS_PER_HOUR, None if gpu_hours is None else gpu_hours * SECONDS_PER_HOUR


def _content() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("paper.toml").read_text(encoding="utf-8"))
