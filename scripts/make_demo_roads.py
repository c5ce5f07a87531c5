"""Generate the small road network that the package ships: a town on a bent grid, and a day of its traffic.

Usage: python scripts/make_demo_roads.py FOLDER. `netgenerate` lays out a grid; its streets are bent, some are
taken away, and all get speeds and heights; `netconvert` builds the network; trips go to the centre in the
morning and back in the evening; `treebandit.datasets.sumo` simulates the day and records it.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from treebandit.datasets.sumo import find_sumo, record_roads

SIZE, SPACING, TRIPS, SEED = 12, 260.0, 33_000, 7
BYPASS, ARTERIAL, STREET = ("bypass", 22.22, 1, 3), ("arterial", 13.89, 1, 2), ("street", 8.33, 1, 1)
CONFIG = """<configuration>
    <input><net-file value="town.net.xml.gz"/><route-files value="town.trips.xml.gz"/></input>
    <time><begin value="0"/><end value="90000"/></time>
    <processing>
        <mesosim value="true"/><meso-junction-control value="true"/><meso-minor-penalty value="3"/>
        <meso-tauff value="2.0"/><meso-taufj value="2.0"/><meso-taujf value="2.6"/><meso-taujj value="2.0"/>
        <time-to-teleport value="600"/><max-depart-delay value="900"/><ignore-route-errors value="true"/>
    </processing>
    <routing>
        <device.rerouting.probability value="0.6"/><device.rerouting.period value="300"/>
        <device.rerouting.adaptation-steps value="18"/><device.rerouting.adaptation-interval value="10"/>
    </routing>
</configuration>
"""


def place(node: str) -> tuple[int, int]:
    """Column and row of a grid node such as C11."""
    return ord(node[0]) - ord("A"), int(node[1:])


def kind(start: str, end: str) -> tuple[str, float, int, int]:
    """Type, speed limit, lanes and priority of the road between two grid nodes."""
    (column, row), (other, _) = place(start), place(end)
    line = column if column == other else row
    if line in (0, SIZE - 1):
        return BYPASS
    return ARTERIAL if line in (3, 5, 8) else STREET


def bend(nodes: Path, random: np.random.Generator) -> None:
    """Move the grid's nodes about, give them heights, and put signals where arterials cross."""
    tree = ElementTree.parse(nodes)
    for node in tree.getroot().iter("node"):
        column, row = place(node.get("id", ""))
        x, y = (SPACING * i + random.normal(0, 45) for i in (column, row))
        hill = 60 * np.exp(-((x - 700) ** 2 + (y - 2000) ** 2) / 1.2e6) + 0.012 * x
        node.set("x", f"{x:.2f}")
        node.set("y", f"{y:.2f}")
        node.set("z", f"{240 + hill:.1f}")
        node.set("type", "traffic_light" if column in (3, 5, 8) and row in (3, 5, 8) else "priority")
    tree.write(nodes)


def shape(edges: Path, random: np.random.Generator) -> None:
    """Give every edge its kind, take some streets away, and make some of the others one-way."""
    tree = ElementTree.parse(edges)
    root = tree.getroot()
    fate = {}
    for edge in list(root.iter("edge")):
        start, end = edge.get("from", ""), edge.get("to", "")
        road_type, speed, lanes, priority = kind(start, end)
        pair = min(start, end), max(start, end)
        if road_type == "street" and pair not in fate:
            fate[pair] = random.choice(["gone", "forward", "backward", "both"], p=[0.1, 0.06, 0.06, 0.78])
        one_way = {"gone": (), "forward": (pair[0],), "backward": (pair[1],)}.get(fate.get(pair, "both"))
        if one_way is not None and start not in one_way:
            root.remove(edge)
            continue
        facts = {"type": road_type, "speed": speed, "numLanes": lanes, "priority": priority}
        for name, value in facts.items():
            edge.set(name, str(value))
    tree.write(edges)


def build_network(folder: Path, random: np.random.Generator) -> Path:
    """The town's network, built from a grid."""
    net, prefix = folder / "town.net.xml", folder / "plain"
    grid = ["--grid", "--grid.number", str(SIZE), "--grid.length", str(SPACING)]
    run("netgenerate", *grid, "--plain-output-prefix", str(prefix), "-o", str(folder / "grid.net.xml"))
    nodes, edges = folder / "plain.nod.xml", folder / "plain.edg.xml"
    bend(nodes, random)
    shape(edges, random)
    plain = ["-n", str(nodes), "-e", str(edges)]
    run("netconvert", *plain, "--no-turnarounds", "--no-internal-links", "-o", str(net))
    packed = folder / "town.net.xml.gz"
    # The comment on top holds the time and place of writing, which differ from run to run.
    write_packed(packed, re.sub(r"<!--.*?-->\s*", "", net.read_text(), count=1, flags=re.DOTALL))
    return packed


def write_packed(path: Path, text: str) -> None:
    """Write text as .gz, the same bytes for the same text."""
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as packed:
        packed.write(text.encode())


def run(program: str, *arguments: str) -> None:
    """Run one of SUMO's programs, or fail loudly."""
    subprocess.run([str(find_sumo(program)), *arguments], check=True, stdout=subprocess.DEVNULL)


def write_trips(net: Path, trips: Path, random: np.random.Generator) -> None:
    """A day of trips: to the centre around 8, from it around 17:30, and some of any kind all day."""
    with gzip.open(net) as stream:
        edges = [e for e in ElementTree.parse(stream).getroot().iter("edge") if e.get("from")]
    middle = np.array([np.mean([place(e.get(end, "")) for end in ("from", "to")], axis=0) for e in edges])
    away = np.hypot(*(middle - np.array([5.0, 4.5])).T)
    street = np.array([e.get("type") == "street" for e in edges])
    work, home = np.exp(-((away / 1.8) ** 2)), street * (away > 2.5) + 0.02
    hours = np.concatenate(
        [
            random.normal(8.0, 1.0, int(0.3 * TRIPS)),
            random.normal(17.5, 1.1, int(0.34 * TRIPS)),
            random.triangular(5.0, 14.0, 23.5, int(0.26 * TRIPS)),
            random.uniform(0.0, 24.0, int(0.1 * TRIPS)),
        ]
    )
    names = [e.get("id") for e in edges]
    lines = []
    for depart in np.sort(hours % 24.0 * 3600).astype(int):
        inbound = np.interp(depart / 3600, [0, 5, 10, 14, 16, 24], [0.5, 0.9, 0.8, 0.5, 0.15, 0.2])
        first, last = (home, work) if random.random() < inbound else (work, home)
        a, b = (random.choice(len(edges), p=part / part.sum()) for part in (first, last))
        if a != b:
            lines.append(f'<trip id="{len(lines)}" depart="{depart}" from="{names[a]}" to="{names[b]}"/>')
    write_packed(trips, "\n".join(["<routes>", *lines, "</routes>\n"]))


def main() -> None:
    """Generate the scenario, record it, and put both into the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    random = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        net = build_network(work, random)
        write_trips(net, work / "town.trips.xml.gz", random)
        (work / "town.sumocfg").write_text(CONFIG)
        record_roads(work / "town.sumocfg", folder, per_hour=8, progress=lambda what, far: print(what, far))
        (folder / "scenario").mkdir()
        for name in ("town.net.xml.gz", "town.trips.xml.gz", "town.sumocfg"):
            shutil.copy(work / name, folder / "scenario")


if __name__ == "__main__":
    main()
