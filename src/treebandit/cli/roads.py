"""`treebandit roads`: road networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from treebandit.cli.output import writable_folder

app = typer.Typer(help="Road networks for navigation.", no_args_is_help=True)

Into = Annotated[str, typer.Option(metavar="FOLDER", help="Where the road network goes; a new folder.")]
PerHour = Annotated[int, typer.Option(min=1, help="Traversals kept per edge and hour of the day.")]
Seed = Annotated[int, typer.Option(help="Seed of the simulation and of what is kept.")]


@app.command()
def record(
    scenario: Annotated[Path, typer.Option(metavar="FILE", help="A SUMO scenario, .sumocfg.")],
    into: Into,
    meso: Annotated[bool, typer.Option("--meso", help="Simulate queues, not single cars: faster.")] = False,
    leave_out: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="Vehicle type to leave out; repeatable. [bus]")
    ] = None,
    per_hour: PerHour = 13,
    seed: Seed = 0,
) -> None:
    """Simulate a day of traffic with SUMO and keep the network with a sample of traversals of its edges."""
    from treebandit.datasets.sumo import record_roads

    simulate = partial(record_roads, scenario, mesoscopic=meso, leave_out=leave_out or ("bus",))
    _recorded(into, partial(simulate, per_hour=per_hour, seed=seed))


@app.command()
def lust(
    checkout: Annotated[
        Path, typer.Argument(metavar="DIR", help="A full clone of github.com/lcodeca/LuSTScenario.")
    ],
    into: Into,
    micro: Annotated[bool, typer.Option("--micro", help="Simulate single cars: hours, not minutes.")] = False,
    per_hour: PerHour = 13,
    seed: Seed = 0,
) -> None:
    """Record the roads of Luxembourg from the LuST scenario, with the settings of the studies here."""
    from treebandit.datasets.lust import record_lust

    _recorded(into, partial(record_lust, checkout, mesoscopic=not micro, per_hour=per_hour, seed=seed))


def _recorded(into: str, record: Callable[..., Path]) -> None:
    """Record into a new folder, telling how far it is."""
    from rich.console import Console

    target = writable_folder(into, "--into")
    console = Console(stderr=True)
    with console.status("reading the network") as status:
        folder = record(target, progress=lambda what, far: status.update(f"{what}: {far:,.0f}"))
    typer.echo(f"road network: {folder}; set TREEBANDIT_ROADS to it, or pass --roads {folder}")
