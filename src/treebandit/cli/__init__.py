"""The command line, thin: what it does lives in `experiments`, `datasets` and `reports`."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from treebandit.errors import MissingExtraError, TreebanditError

try:
    import typer
except ImportError as error:
    raise SystemExit(str(MissingExtraError("typer", "experiments"))) from error

from treebandit.cli.warm_up import warm_up

if TYPE_CHECKING:
    from rich.console import Console

    from treebandit.experiments.events import Event, TimeLeft
    from treebandit.experiments.spec import RunSpec, Study

app = typer.Typer(
    help="Contextual bandits with tree ensembles: run studies, report what was found.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
roads_app = typer.Typer(help="Road networks for navigation.", no_args_is_help=True)
app.add_typer(roads_app, name="roads")

Into = Annotated[Path, typer.Option("--into", metavar="DIR", help="Folder of the records; made if missing.")]
Names = list[str]


def main() -> None:
    """Run the command line; what goes wrong on purpose is one sentence and exit code 2."""
    try:
        app()
    except TreebanditError as error:
        typer.echo(f"treebandit: {error}", err=True)
        sys.exit(2)


@app.command()
def run(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A shipped study's name, or a TOML file.")],
    into: Into,
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Seeds 0 to N-1 instead of the study's.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, metavar="T", help="Rounds a run instead of the study's.")
    ] = None,
    only_agent: Annotated[
        Names | None, typer.Option(metavar="NAME", help="Only this one; repeatable.")
    ] = None,
    only_environment: Annotated[
        Names | None, typer.Option(metavar="NAME", help="Only this one; repeatable.")
    ] = None,
    only_run: Annotated[
        Names | None, typer.Option(metavar="ID", help="Only the run with this id; repeatable.")
    ] = None,
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

    from treebandit.experiments.spec import load_study

    if roads is not None:
        os.environ["TREEBANDIT_ROADS"] = str(roads)
    loaded = load_study(study)
    sys.path.insert(0, str(Path(loaded.source).resolve().parent))
    chosen = loaded.select(
        seeds=seeds,
        rounds=rounds,
        agents=tuple(only_agent or ()),
        environments=tuple(only_environment or ()),
    )
    specs = _pick(chosen, only_run or [])
    command = ["treebandit", "run", study, "--into", str(into)]
    command += [] if seeds is None else ["--seeds", str(seeds)]
    command += [] if rounds is None else ["--rounds", str(rounds)]
    command += [] if roads is None else ["--roads", str(roads)]
    console = Console()
    try:
        failed = _play(specs, into, console, workers=workers or _cores(), cluster=cluster, command=command)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    if failed < len(specs):
        _show(into, console)
    if failed:
        console.print(f"{failed} of {len(specs)} runs failed, see above", style="bold red")
        raise typer.Exit(1)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `treebandit run` wrote.")],
    json: Annotated[bool, typer.Option("--json", help="One object per agent and environment.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The table in Markdown.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page: one file, works offline.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the figures as SVG and PNG.")
    ] = None,
    roads: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Road network, for the maps.", envvar="TREEBANDIT_ROADS"),
    ] = None,
) -> None:
    """Show the table of a folder of records; write page and figures.

    The table: mean ± sd of the final regret and CPU seconds a run, with the paper's figures beside.
    """
    from rich.console import Console

    from treebandit import reports

    if roads is not None:
        os.environ["TREEBANDIT_ROADS"] = str(roads)
    if json:
        typer.echo(reports.as_json(reports.summarise(folder)))
    elif markdown:
        results = reports.read_results(folder)
        typer.echo(reports.as_markdown(reports.summarise(results), results), nl=False)
    else:
        _show(folder, Console())
    if html is None and figures is None:
        return
    results = reports.read_results(folder)
    if html is not None:
        reports.write_page(results, html)
        typer.echo(f"page: {html}", err=json or markdown)
    if figures is not None:
        files = reports.write_figures(results, figures)
        typer.echo(f"figures: {len(files)} files in {figures}", err=json or markdown)
    for sentence in results.maps[1]:
        typer.echo(sentence, err=json or markdown)


@app.command()
def data() -> None:
    """Show the shipped data sets, and verify their checksums."""
    from rich.console import Console
    from rich.table import Table

    from treebandit.datasets.catalogue import CATALOGUE, read
    from treebandit.errors import DataError

    table = Table("name", "rows", "features", "classes", "licence", "checksum")
    damaged = []
    for entry in CATALOGUE:
        try:
            read(entry)
            state = f"verified {entry.sha256[:8]}"
        except DataError as error:
            damaged.append(str(error))
            state = "DAMAGED"
        counts = (f"{entry.rows:,}", str(entry.features), str(entry.classes))
        table.add_row(entry.name, *counts, entry.licence, state)
    console = Console()
    console.print(table)
    for entry in CATALOGUE:
        console.print(f"{entry.name}: {entry.citation}", soft_wrap=True, markup=False, highlight=False)
    if damaged:
        raise DataError("\n".join(damaged))


@roads_app.command()
def record(
    scenario: Annotated[Path, typer.Option(metavar="FILE", help="A SUMO scenario, .sumocfg.")],
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the road network goes; a new folder.")],
    meso: Annotated[bool, typer.Option("--meso", help="Simulate queues, not single cars: faster.")] = False,
    leave_out: Annotated[
        Names | None, typer.Option(metavar="TYPE", help="Vehicle type to leave out; repeatable. [bus]")
    ] = None,
    per_hour: Annotated[int, typer.Option(min=1, help="Traversals kept per edge and hour of the day.")] = 13,
    seed: Annotated[int, typer.Option(help="Seed of the simulation and of what is kept.")] = 0,
) -> None:
    """Simulate a day of traffic with SUMO and keep the network with a sample of traversals of its edges."""
    from rich.console import Console

    from treebandit.datasets.sumo import record_roads

    console = Console(stderr=True)
    with console.status("reading the network") as status:
        folder = record_roads(
            scenario,
            into,
            mesoscopic=meso,
            leave_out=leave_out or ("bus",),
            per_hour=per_hour,
            seed=seed,
            progress=lambda what, far: status.update(f"{what}: {far:,.0f}"),
        )
    typer.echo(f"road network: {folder}; set TREEBANDIT_ROADS to it, or pass --roads {folder}")


def _pick(study: Study, ids: Names) -> list[RunSpec]:
    from treebandit.errors import StudyError

    specs = list(study.runs())
    for run_id in ids:
        if run_id not in {spec.run_id for spec in specs}:
            raise StudyError(
                f"{study.source} has no run {run_id!r}; was it made with other --seeds or --rounds?"
            )
    return [spec for spec in specs if not ids or spec.run_id in ids]


def _play(
    specs: list[RunSpec],
    into: Path,
    console: Console,
    *,
    workers: int,
    cluster: str | None,
    command: Names,
) -> int:
    """Play the runs behind a progress bar; gives how many failed."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from treebandit.experiments.events import TimeLeft
    from treebandit.experiments.study import execute

    left, failed, done = TimeLeft(specs), 0, 0
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, TextColumn("{task.fields[left]}"), console=console)
    with bar, closing(execute(specs, into, workers=workers, cluster=cluster)) as news:
        task = bar.add_task("runs", total=len(specs), left="")
        for event in news:
            left.take(event)
            if event.kind in ("finished", "failed", "skipped"):
                done += 1
            if event.kind == "failed":
                failed += 1
                _complain(event, bar.console, command)
            elif event.kind == "finished" and not console.is_terminal:
                console.print(_line(event, done, len(specs), left), highlight=False)
            bar.update(task, completed=done + left.share(), left=_time_left(left))
    return failed


def _complain(event: Event, console: Console, command: Names) -> None:
    console.print(f"failed: {_name(event)}", style="bold red", highlight=False)
    console.print(event.trouble.rstrip(), markup=False, highlight=False, soft_wrap=True)
    again = shlex.join([*command, "--only-run", event.spec.run_id])
    console.print(f"run it again: {again}", markup=False, highlight=False, soft_wrap=True)


def _line(event: Event, done: int, total: int, left: TimeLeft) -> str:
    return f"{done}/{total} {_name(event)} {event.seconds:.1f} s {_time_left(left)}"


def _name(event: Event) -> str:
    spec = event.spec
    varied = "" if spec.varied is None else f", {spec.varied} = {spec.value}"
    return f"{spec.agent['name']} on {spec.environment['name']}, seed {spec.seed}{varied}"


def _time_left(left: TimeLeft) -> str:
    seconds = left.seconds()
    if seconds is None:
        return ""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d} left" if hours else f"{minutes}:{seconds:02d} left"


def _show(folder: Path, console: Console) -> None:
    from treebandit import reports

    results = reports.read_results(folder)
    reports.print_table(reports.summarise(results), console, results)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


app.command()(warm_up)
