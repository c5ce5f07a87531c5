import gzip

import numpy as np
import pytest
from typer.testing import CliRunner

from treebandit.cli import app
from treebandit.datasets import sumo
from treebandit.datasets.roads import read_roads, roads_folder
from treebandit.datasets.sumo import read_traversals, record_roads
from treebandit.environments import Navigation
from treebandit.errors import MissingExtraError, ParameterError, RoadsError

ROUTES = """<routes>
  <vehicle id="0" depart="10.00" arrival="40.00">
    <route edges="a b c" exitTimes="15.00 25.00 40.00"/>
  </vehicle>
  <vehicle id="1" type="bus@1" depart="10.00">
    <route edges="a b" exitTimes="11.00 12.00"/>
  </vehicle>
  <vehicle id="2" depart="86390.00">
    <routeDistribution>
      <route edges="a c" cost="9" probability="0"/>
      <route edges="a b c" exitTimes="86400.00 86460.00 -1.00"/>
    </routeDistribution>
  </vehicle>
  <vehicle id="3" depart="5.00"><route edges="a b"/></vehicle>
</routes>
"""


@pytest.fixture
def town():
    pytest.importorskip("sumo", reason="eclipse-sumo is not installed: nothing to simulate with")
    return roads_folder("small-town") / "scenario" / "town.sumocfg"


@pytest.mark.parametrize("packed", [False, True])
def test_traversals_run_from_exit_to_exit(tmp_path, packed):
    file = tmp_path / ("routes.xml.gz" if packed else "routes.xml")
    file.write_bytes(gzip.compress(ROUTES.encode()) if packed else ROUTES.encode())
    assert list(read_traversals(file, leave_out=("bus",))) == [
        ("a", 10.0, 5.0, True),
        ("b", 15.0, 10.0, False),
        ("c", 25.0, 15.0, True),
        ("a", 86390.0, 10.0, True),
        ("b", 86400.0, 60.0, False),
    ]
    assert len(list(read_traversals(file))) == 7


def test_damaged_routes_are_refused(tmp_path):
    (tmp_path / "cut.xml").write_text(ROUTES[:200])
    (tmp_path / "cut.xml.gz").write_bytes(gzip.compress(ROUTES.encode())[:-20])
    (tmp_path / "text.xml.gz").write_text("plain")
    (tmp_path / "times.xml").write_text(ROUTES.replace("15.00", "soon"))
    for name in ("cut.xml", "cut.xml.gz", "text.xml.gz", "nothing.xml", "times.xml"):
        with pytest.raises(RoadsError, match=name):
            list(read_traversals(tmp_path / name))


def test_a_sample_is_bounded_and_fair():
    kept = np.zeros(40)
    for seed in range(600):
        sample = sumo._Sample(["e"], 4, np.random.default_rng(seed))
        for i in range(40):
            sample.add("e", 3600.0 + i, float(i), False)
        rows = sample.rows()
        assert len(rows) == 4
        kept[[int(seconds) for _, _, seconds in rows]] += 1
    assert sample.counts.tolist() == [40]
    assert kept.min() > 25
    assert kept.max() < 100


def test_ends_of_trips_count_where_little_else_was_driven():
    sample = sumo._Sample(["busy", "quiet"], 50, np.random.default_rng(0))
    for i in range(40):
        sample.add("busy", float(i), 5.0, False)
    for edge in ("busy", "quiet", "elsewhere"):
        sample.add(edge, 86400.0 + 7, 9.0, True)
    rows = sample.rows()
    assert rows[-1] == (1, 7.0, 9.0)
    assert len(rows) == 41


def test_sumo_records_the_shipped_town(town, tmp_path):
    calls = []
    folder = record_roads(
        town,
        tmp_path / "roads",
        options=("--begin", "25200", "--end", "28800"),
        per_hour=5,
        progress=lambda what, far: calls.append((what, far)),
    )
    whole, shipped = read_roads(folder, connected=False), read_roads("small-town")
    assert whole.edge_names == shipped.edge_names
    np.testing.assert_array_equal(whole.lengths, shipped.lengths)
    np.testing.assert_array_equal(whole.stops, shipped.stops)
    assert {0, 1} == set(whole.stops.tolist())
    hours = set((whole.times // 3600).astype(int).tolist())
    assert hours <= {7, 8}
    assert len(whole.times) > 500
    assert np.diff(whole.offsets).max() <= 2 * 5 * len(hours)
    assert (whole.durations >= 0).all()
    free = (whole.lengths / whole.speed_limits)[np.repeat(np.arange(len(whole)), np.diff(whole.offsets))]
    assert 0.9 < np.median(whole.durations / free) < 3
    assert any(what == "simulating" and far >= 25200 for what, far in calls)
    assert [path.name for path in tmp_path.iterdir()] == ["roads"]
    assert len(Navigation("B2", "K3", roads=str(folder), seed=0).best_path(0.0)) > 5


def test_the_command_records_a_scenario(town, tmp_path):
    scenario = tmp_path / "early.sumocfg"
    inputs = {"net-file": town.parent / "town.net.xml.gz", "route-files": town.parent / "town.trips.xml.gz"}
    lines = [f'<{name} value="{path}"/>' for name, path in inputs.items()]
    scenario.write_text(f'<configuration>{"".join(lines)}<end value="7200"/></configuration>')
    command = ["roads", "record", "--scenario", str(scenario), "--into", str(tmp_path / "roads"), "--meso"]
    result = CliRunner().invoke(app, [*command, "--per-hour", "2"], catch_exceptions=False)
    assert result.exit_code == 0
    assert str(tmp_path / "roads") in result.output
    assert len(read_roads(tmp_path / "roads").times) > 20
    with pytest.raises(RoadsError, match="exists already"):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_single_cars_are_simulated_too(town, tmp_path):
    options = ("--mesosim", "false", "--begin", "25200", "--end", "25800")
    network = read_roads(record_roads(town, tmp_path / "roads", options=options))
    assert len(network.times) > 50


def test_a_failing_simulation_leaves_no_folder(town, tmp_path):
    for options, message in (
        (("--no-such-option",), "exit code 1"),
        (("--route-files", "nowhere.xml"), "nowhere"),
    ):
        with pytest.raises(RoadsError, match=message):
            record_roads(town, tmp_path / "roads", options=options)
    with pytest.raises(RoadsError, match="no vehicle drove"):
        record_roads(town, tmp_path / "roads", options=("--end", "1"))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_simulation_leaves_no_folder(town, tmp_path):
    def interrupt(what, far):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record_roads(town, tmp_path / "roads", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_bad_scenarios_are_refused(town, tmp_path):
    into = tmp_path / "roads"
    with pytest.raises(RoadsError, match="does not exist"):
        record_roads(tmp_path / "no.sumocfg", into)
    scenario = tmp_path / "x.sumocfg"
    for text, message in (
        ("<configuration>", "no SUMO configuration"),
        ("<configuration/>", "names no net-file"),
        ('<configuration><net-file value="no.net.xml"/></configuration>', "which does not exist"),
    ):
        scenario.write_text(text)
        with pytest.raises(RoadsError, match=message):
            record_roads(scenario, into)
    (tmp_path / "no.net.xml").write_text("<net><edge")
    with pytest.raises(RoadsError, match="cannot be read"):
        record_roads(scenario, into)
    (tmp_path / "no.net.xml").write_text('<net version="1.20"/>')
    with pytest.raises(RoadsError, match="no edge that cars may use"):
        record_roads(scenario, into)
    with pytest.raises(RoadsError, match="exists already"):
        record_roads(town, tmp_path)
    assert not into.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        {"per_hour": 0},
        {"per_hour": "13"},
        {"seed": -1},
        {"seed": None},
        {"options": "--end 3600"},
        {"options": [3600]},
        {"leave_out": "bus"},
        {"scenario": 3},
        {"into": None},
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(tmp_path, arguments):
    with pytest.raises(ParameterError, match=f"{next(iter(arguments))} is"):
        record_roads(**({"scenario": "town.sumocfg", "into": tmp_path / "roads"} | arguments))


def test_without_sumo_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sumo, "find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("SUMO_HOME", raising=False)
    with pytest.raises(MissingExtraError, match=r"treebandit\[roads\]"):
        sumo.find_sumo()
