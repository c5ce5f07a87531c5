"""From a checkout of the Luxembourg SUMO Traffic scenario (LuST) to a road network folder."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from treebandit.datasets.sumo import Progress, record_roads
from treebandit.errors import RoadsError

SCENARIO = Path("scenario") / "dua.static.sumocfg"
#: Of the files that the scenario adds, those that traffic needs; detectors, polygons and old signal plans are not.
_ADDED = ("vtypes.add.xml", "busstops.add.xml")
#: Queues instead of single cars, with junctions that hold them up; the headways are those that StanfordASL/RL4AMOD
#: uses for LuST. A day takes minutes instead of hours.
_MESOSCOPIC = (
    *("--meso-junction-control", "true", "--meso-minor-penalty", "3", "--meso-edgelength", "100"),
    *("--meso-tauff", "1.45", "--meso-taufj", "1.45", "--meso-taujf", "1.45", "--meso-taujj", "1.45"),
)
_RUN = (
    *("--begin", "0", "--end", "90000", "--ignore-route-errors", "true", "--routing-algorithm", "astar"),
    # The scenario would write these beside itself; SUMO takes NUL for nowhere on every system.
    *("--summary-output", "NUL", "--tripinfo-output", "NUL"),
)


def record_lust(
    checkout: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    mesoscopic: bool = True,
    per_hour: int = 13,
    seed: int = 0,
    progress: Progress | None = None,
) -> Path:
    """Simulate LuST's day (user equilibrium routes, static signals) and write the road network folder `into`.

    checkout: a clone of github.com/lcodeca/LuSTScenario with its network and demand (lust.net.xml, DUARoutes,
        transit.rou.xml). LuST was validated with SUMO 0.26; a newer SUMO gives other traffic.
    mesoscopic: False, single cars: hours instead of minutes.
    """
    config = Path(checkout) / SCENARIO
    _check_complete(config)
    added = ",".join(str((config.parent / name).resolve()) for name in _ADDED)
    options = [*_RUN, "--additional-files", added, *(_MESOSCOPIC if mesoscopic else ())]
    return record_roads(
        config,
        into,
        mesoscopic=mesoscopic,
        options=options,
        per_hour=per_hour,
        seed=seed,
        progress=progress,
    )


def _check_complete(config: Path) -> None:
    """Raise where the checkout is not one of LuST, or lacks what the simulation needs."""
    if not config.is_file():
        raise RoadsError(
            f"{str(config.parent.parent)!r} has no {SCENARIO}; name a clone of github.com/lcodeca/LuSTScenario"
        )
    try:
        root = ElementTree.parse(config).getroot()
    except ElementTree.ParseError as error:
        raise RoadsError(f"{str(config)!r} is no SUMO configuration: {error}") from error
    named = list(_ADDED)
    for tag in ("net-file", "route-files"):
        entry = root.find(f".//{tag}")
        named += [] if entry is None else [name.strip() for name in entry.get("value", "").split(",")]
    missing = [name for name in named if name and not (config.parent / name).is_file()]
    if missing:
        raise RoadsError(
            f"{str(config.parent)!r} lacks {', '.join(missing)}; LuST's network and demand are large files that some "
            "copies leave out: take a full clone or a release archive"
        )
