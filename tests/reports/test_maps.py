import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import polars as pl
import pytest
from reports.browser import open_page
from reports.driven import drive

from treebandit.reports.charts import Style
from treebandit.reports.figures import write_figures
from treebandit.reports.maps import LEVELS, WIDTH, View, map_figure, one_run_figure
from treebandit.reports.page import write_page
from treebandit.reports.palette import looks
from treebandit.reports.summary import read_results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driven")
    drive(folder)
    return folder


@pytest.fixture(scope="module")
def town(folder):
    return read_results(folder).maps[0][0]


def panels(town, *, page=False):
    """The panels of the map as specs: the best paths, then one for each agent."""
    style = Style(looks(drive.agent for drive in town.drives), {}, page)
    return [panel.to_dict() for panel in map_figure(town, style).panels]


def data(spec, layer):
    """The frame that a layer draws."""
    return pl.read_csv(spec["datasets"][spec["layer"][layer]["data"]["name"]].encode())


def segments(text):
    return [tuple(map(float, each)) for each in re.findall(r"M([-\d.]+) ([-\d.]+)l([-\d.]+) ([-\d.]+)", text)]


def test_every_driven_edge_is_drawn_once_in_the_level_of_its_share(town):
    view, linear = View(town), town.drives[0]
    paths = dict(data(panels(town)[1], 1).select("share", "path").iter_rows())
    drawn = {name: segments(path) for name, path in paths.items()}
    assert sum(map(len, drawn.values())) == np.count_nonzero(linear.times)
    for edge in np.flatnonzero(linear.shares):
        most = next(most for most, *_ in LEVELS if linear.shares[edge] <= most + 1e-9)
        x, y, x2, y2 = view.ends[edge]
        assert (x, y, x2 - x, y2 - y) in drawn[f"{100 * most:g} %"]


def test_the_more_often_the_thicker_and_darker():
    shares, _, widths = zip(*LEVELS, strict=True)
    assert list(shares) == sorted(shares)
    assert shares[-1] == 1.0
    assert list(widths) == sorted(widths)


def test_all_that_was_driven_lies_inside_the_panel(town):
    view = View(town)
    driven = np.any([drive.times for drive in town.drives], axis=0)
    points = view.ends[driven].reshape(-1, 2)
    assert points.min() >= 0.0
    assert np.all(points <= [WIDTH, view.height])
    north = np.argmax(town.problem.network.positions[:, 1])
    assert view.points[north, 1] == view.points[:, 1].min(), "north is up"


def test_the_figure_names_every_agent_both_ends_and_the_levels(folder, tmp_path):
    files = {file.name: file for file in write_figures(folder, tmp_path)}
    drawn = ElementTree.fromstring(files["map-small-town.svg"].read_text())
    texts = [node.text for node in drawn.iter() if node.tag.endswith("text")]
    assert {"Optimal paths", "LinUCB", "Uniform", "small-town: roads driven from A to B"} <= set(texts)
    assert texts.count("A") == texts.count("B") == 3
    assert any(text.startswith("6 rounds, 2 seeds; ") for text in texts)
    assert {"0.1 %", "100 %"} <= set(texts)


def test_the_tooltip_has_name_limit_times_and_seconds(town):
    network, (linear, uniform) = town.problem.network, town.drives
    _, of_linear, of_uniform = (data(spec, -1) for spec in panels(town, page=True))
    assert of_linear.height == np.count_nonzero(linear.times)
    for row in of_linear.to_dicts():
        edge = network.edge(row["edge"])
        assert row["limit"] == round(3.6 * network.speed_limits[edge])
        assert row["times"] == linear.times[edge]
        seconds = (town.expected[edge], linear.estimates[edge])
        assert (row["expected"], row["estimate"]) == pytest.approx(seconds, abs=0.051)
    assert "estimate" not in of_uniform.columns
    assert of_uniform.height == np.count_nonzero(uniform.times)


def test_maps_are_written_as_svg_and_png(folder, tmp_path):
    names = {file.name for file in write_figures(folder, tmp_path)}
    assert {"map-small-town.svg", "map-small-town.png"} <= names
    assert (tmp_path / "map-small-town.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_page_without_a_road_network_says_so(folder, tmp_path, monkeypatch):
    results = read_results(folder)
    monkeypatch.delenv("TREEBANDIT_ROADS", raising=False)
    spec = results.runs["spec"].str.replace('"roads": "small-town", ', "")
    results = type(results)(results.folder, results.runs.with_columns(spec), results.plan)
    text = write_page(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "No map of small-town: no road network is given" in text
    assert 'data-owner="' not in text


def test_pointing_at_an_edge_describes_it_and_a_hidden_agent_has_no_map(folder, tmp_path, browser):
    page = write_page(folder, tmp_path / "report.html")
    assert page.stat().st_size < 2_000_000
    open_page(browser, page)
    strokes = "document.querySelectorAll('#map-small-town-1 .mark-rule line')"
    browser.evaluate(f"{strokes}[0].scrollIntoView({{block: 'center'}})")
    where = "(r => [r.x + r.width / 2, r.y + r.height / 2])"
    x, y = browser.evaluate(f"{where}([...{strokes}].at(-1).getBoundingClientRect())")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    shown = "document.querySelector('#vg-tooltip-element.visible')"
    browser.wait_for(f"{shown} !== null")
    text = browser.evaluate(f"{shown}.textContent")
    for word in ("edge", "km/h", "times driven", "expected seconds at 8 h", "estimated seconds"):
        assert word in text
    browser.click('.legend button[data-agent="Uniform"]')
    browser.wait_for("document.querySelector('[data-owner=Uniform]').hidden")
    assert not browser.evaluate("document.querySelector('[data-owner=LinUCB]').hidden")
    assert browser.complaints() == []


def test_one_run_is_drawn_of_the_papers_agents_alone(town):
    style = Style(looks(drive.agent for drive in town.drives), {}, page=False)
    figure = one_run_figure(town, style)
    assert figure.agents == (None, "LinUCB")
    assert figure.name == "map-one-run-small-town"
    assert [drive.seeds for drive in town.one_run] == [1, 1]
    both = town.drives[0].times
    assert (town.one_run[0].times <= both).all()
    assert town.one_run[0].times.sum() < both.sum()


def test_regret_curves_show_the_fixed_routes(folder, tmp_path):
    write_figures(folder, tmp_path)
    drawn = (tmp_path / "regret-curves.svg").read_text(encoding="utf-8")
    assert "free-flow route" in drawn
    assert (tmp_path / "map-one-run-small-town.svg").is_file()
