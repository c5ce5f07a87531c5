"""`treebandit run`: play the runs of a study."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treebandit.cli.output import print_line, writable_folder
from treebandit.errors import InputError, StudyError

if TYPE_CHECKING:
    from rich.console import Console

    from treebandit.experiments.progress import ProgressEvent, TimeLeft
    from treebandit.experiments.spec import RunSpec, Study

Names = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this one; repeatable.")]


def run(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A shipped study's name, or a TOML file.")],
    into: Annotated[str, typer.Option(metavar="DIR", help="Folder of the records; made if missing.")],
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Seeds 0 to N-1 instead of the study's.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, metavar="T", help="Rounds a run instead of the study's.")
    ] = None,
    only_agent: Names = None,
    only_environment: Names = None,
    only_run: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only the run with this id; repeatable.")
    ] = None,
    played: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="A table of runs (CSV); those in it are not played again."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also play stale runs anew: those made by other code.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Processes, one thread each; by default one per core.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler that plays the runs instead.")
    ] = None,
    roads: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Road network and traversals.", envvar="TREEBANDIT_ROADS"),
    ] = None,
) -> None:
    """Play the runs of a study, and show the table.

    What DIR holds already is skipped. Stop it at any time; the same command goes on where it was. A failed
    run is shown with its traceback, the others go on, and the exit code is 1.
    """
    from rich.console import Console

    from treebandit.experiments import execute, load_study
    from treebandit.reports import print_table, read_results, summarise

    folder = writable_folder(into, "--into")
    if cluster is not None and not cluster.strip():
        raise InputError(f"--cluster is {cluster!r}; give the address of a Dask scheduler: tcp://host:8786")
    agents, environments = tuple(only_agent or ()), tuple(only_environment or ())
    asked = load_study(study, roads=roads)
    chosen = asked.select(seeds=seeds, rounds=rounds, agents=agents, environments=environments)
    specs = _pick(chosen, only_run or [])
    if played is not None:
        specs = _unplayed(specs, played)
    given = {"--seeds": seeds, "--rounds": rounds, "--roads": roads, "--cluster": cluster, "--played": played}
    options = [text for name, value in given.items() if value is not None for text in (name, str(value))]
    command = ["treebandit", "run", study, "--into", into, *options, *(["--again"] if again else [])]
    console = Console()
    try:
        events = execute(
            specs, folder, workers=workers or _cores(), cluster=cluster, again=again, study=asked
        )
        with closing(events):
            failed = _follow(events, specs, console, command)
    except KeyboardInterrupt:
        print_line(console, "stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    if failed < len(specs):
        results = read_results(folder)
        print_table(summarise(results), console, results)
    if failed:
        print_line(console, f"{failed} of {len(specs)} runs failed, see above", "bold red")
        raise typer.Exit(1)


def _pick(study: Study, ids: list[str]) -> list[RunSpec]:
    specs = {spec.run_id: spec for spec in study.runs()}
    for run_id in ids:
        if run_id not in specs:
            raise StudyError(
                f"{study.source} has no run {run_id!r}; was it made with other --seeds or --rounds?"
            )
    return [specs[run_id] for run_id in dict.fromkeys(ids)] if ids else list(specs.values())


def _unplayed(specs: list[RunSpec], table: Path) -> list[RunSpec]:
    from treebandit.reports.run_table import played_runs

    known = played_runs(table)
    left = [spec for spec in specs if spec.run_id not in known]
    if not left:
        raise StudyError(f"{table} has all {len(specs)} runs; leave --played out to play them again")
    return left


def _follow(
    events: Iterator[ProgressEvent], specs: list[RunSpec], console: Console, command: list[str]
) -> int:
    """Show events behind a progress bar until all runs are played; gives how many failed."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from treebandit.experiments.progress import TimeLeft

    left, failed, done = TimeLeft(specs), 0, 0
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=console) as bar:
        task = bar.add_task("runs", total=len(specs), left="")
        for event in events:
            left.update(event)
            done += event.kind in ("finished", "failed", "skipped")
            if event.kind == "failed":
                failed += 1
                _print_failure(event, bar.console, command)
            elif event.kind == "damaged":
                print_line(bar.console, f"damaged record, played again: {_name(event.spec)}", "yellow")
            elif event.kind == "finished" and not console.is_terminal:
                line = f"{done}/{len(specs)} {_name(event.spec)} {event.seconds:.1f} s {_time_left(left)}"
                print_line(console, line)
            bar.update(task, completed=done + left.share(), left=_time_left(left))
    return failed


def _print_failure(event: ProgressEvent, console: Console, command: list[str]) -> None:
    print_line(console, f"failed: {_name(event.spec)}", "bold red")
    print_line(console, event.traceback.rstrip())
    print_line(console, f"run it again: {shlex.join([*command, '--only-run', event.spec.run_id])}")


def _name(spec: RunSpec) -> str:
    varied = "" if spec.varied is None else f", {spec.varied} = {spec.value}"
    return f"{spec.agent['name']} on {spec.environment['name']}, seed {spec.seed}{varied}"


def _time_left(left: TimeLeft) -> str:
    seconds = left.seconds()
    return "" if seconds is None else f"{timedelta(seconds=round(seconds))} left"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
