import gzip
import shutil

import pytest
from typer.testing import CliRunner

from treebandit.cli import app
from treebandit.datasets.lust import SCENARIO, record_lust
from treebandit.datasets.roads import read_roads, roads_folder
from treebandit.environments import Navigation
from treebandit.errors import RoadsError

CONFIG = """<configuration>
  <input>
    <net-file value="lust.net.xml"/>
    <route-files value="buslines.rou.xml,DUARoutes/local.0.rou.xml"/>
    <additional-files value="vtypes.add.xml,busstops.add.xml,e1detectors.add.xml"/>
  </input>
  <output><summary-output value="dua.static.summary.xml"/></output>
  <time><begin value="0"/></time>
  <processing><time-to-teleport value="600"/></processing>
</configuration>
"""


@pytest.fixture
def checkout(tmp_path):
    """A town in the shape of LuST: its scenario names detectors that are not there, and an output file."""
    pytest.importorskip("sumo", reason="eclipse-sumo is not installed: nothing to simulate with")
    town = roads_folder("small-town") / "scenario"
    scenario = tmp_path / "LuST" / "scenario"
    (scenario / "DUARoutes").mkdir(parents=True)
    (scenario / SCENARIO.name).write_text(CONFIG)
    (scenario / "lust.net.xml").write_bytes(gzip.decompress((town / "town.net.xml.gz").read_bytes()))
    trips = gzip.decompress((town / "town.trips.xml.gz").read_bytes()).decode().splitlines()
    few = "\n".join([trips[0], *trips[1:-1][::20], trips[-1]])
    (scenario / "DUARoutes" / "local.0.rou.xml").write_text(few)
    (scenario / "buslines.rou.xml").write_text("<routes/>")
    (scenario / "vtypes.add.xml").write_text('<additional><vType id="private"/></additional>')
    (scenario / "busstops.add.xml").write_text("<additional/>")
    return tmp_path / "LuST"


def test_a_checkout_becomes_a_road_network(checkout, tmp_path):
    result = CliRunner().invoke(app, ["roads", "lust", str(checkout), "--into", str(tmp_path / "roads")])
    assert result.exit_code == 0, result.output
    network = read_roads(tmp_path / "roads")
    assert len(network) > 400
    assert len(network.durations) > 1000
    assert len(Navigation("B2", "K3", roads=str(tmp_path / "roads")).best_path(0.0)) > 5
    assert not (checkout / "scenario" / "dua.static.summary.xml").exists()


def test_what_is_missing_is_named(checkout, tmp_path):
    (checkout / "scenario" / "lust.net.xml").unlink()
    shutil.rmtree(checkout / "scenario" / "DUARoutes")
    with pytest.raises(RoadsError, match=r"lacks lust.net.xml, DUARoutes/local.0.rou.xml; .* full clone"):
        record_lust(checkout, tmp_path / "roads")
    assert not (tmp_path / "roads").exists()
    with pytest.raises(RoadsError, match="name a clone of"):
        record_lust(tmp_path, tmp_path / "roads")
