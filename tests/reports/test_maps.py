import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from reports.browser import Browser, find_browser
from reports.driven import drive

from treebandit.reports.figures import write_figures
from treebandit.reports.maps import LEVELS, PANEL, View, hover_json, map_svg, panel_content
from treebandit.reports.page import write_page
from treebandit.reports.summary import read_results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driven")
    drive(folder)
    return folder


@pytest.fixture(scope="module")
def town(folder):
    return read_results(folder).maps[0][0]


def segments(text):
    return set(re.findall(r"M([-\d.]+) ([-\d.]+)L([-\d.]+) ([-\d.]+)", text))


def test_every_driven_edge_is_drawn_once_in_the_colour_of_its_share(town):
    view = View(town)
    drawn = panel_content(town, view, town.drives[0].shares, roads="roads")
    paths = dict(re.findall(r"<path d='([^']*)' fill='none' stroke='([^']*)'", drawn))
    places = {colour: segments(path) for path, colour in paths.items()}
    for edge in np.flatnonzero(town.drives[0].shares):
        colour = next(colour for most, colour, _ in LEVELS if town.drives[0].shares[edge] <= most + 1e-9)
        assert tuple(f"{number:g}" for number in view.ends[edge]) in places[colour]
    assert sum(path.count("M") for path in paths) == np.count_nonzero(town.drives[0].times)


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
    assert np.all(points <= [PANEL, view.height])
    north = np.argmax(town.problem.network.positions[:, 1])
    assert view.points[north, 1] == view.points[:, 1].min(), "north is up"


def test_the_figure_names_every_agent_and_both_ends(town):
    texts = [node.text for node in ElementTree.fromstring(map_svg(town)).iter() if node.tag.endswith("text")]
    assert {"Optimal paths", "LinUCB", "Uniform", "small-town: roads driven from A to B"} <= set(texts)
    assert texts.count("A") == texts.count("B") == 3
    assert any(text.startswith("6 rounds, 2 seeds; ") for text in texts)


def test_the_pointer_learns_name_limit_times_and_seconds(town):
    (data,) = json.loads(hover_json([town]))
    network, linear = town.problem.network, town.drives[0]
    assert len(data["panels"]) == 3
    assert len(data["panels"][1]) == np.count_nonzero(linear.times)
    for place, times, estimate in data["panels"][1]:
        *_, name, limit, expected = data["edges"][place]
        edge = network.edge(name)
        assert limit == round(3.6 * network.speed_limits[edge])
        assert times == linear.times[edge]
        assert (expected, estimate) == pytest.approx((town.expected[edge], linear.estimates[edge]), abs=0.051)
    assert {estimate for _, _, estimate in data["panels"][2]} == {None}


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
    assert "data-panel='" not in text


def test_pointing_at_an_edge_tells_about_it_and_a_hidden_agent_has_no_map(folder, tmp_path):
    program = find_browser()
    if program is None:
        pytest.skip("no chromium on this machine: the maps were not tried in a browser")
    page = write_page(folder, tmp_path / "report.html")
    assert page.stat().st_size < 2_000_000
    with Browser(program, tmp_path / "profile") as browser:
        browser.open(page)
        browser.wait_for("document.body?.dataset.drawn")
        svg = "document.querySelectorAll('svg[data-map]')[1]"
        browser.evaluate(f"{svg}.scrollIntoView({{block: 'center'}})")
        edges = json.loads(browser.evaluate("document.getElementById('maps').textContent"))[0]
        place, times, _ = edges["panels"][1][0]
        x1, y1, x2, y2, name, *_ = edges["edges"][place]
        at = f"new DOMPoint({(x1 + x2) / 2}, {(y1 + y2) / 2}).matrixTransform({svg}.getScreenCTM())"
        x, y = browser.evaluate(f"(p => [p.x, p.y])({at})")
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        browser.wait_for("!document.querySelector('.tip').hidden")
        told = browser.evaluate("document.querySelector('.tip').textContent")
        assert f"{name}: " in told
        assert f"driven {times} times" in told
        assert "estimated" in told
        browser.click('.legend button[data-agent="Uniform"]')
        browser.wait_for("document.querySelector('[data-map-agent=Uniform]').hidden")
        assert not browser.evaluate("document.querySelector('[data-map-agent=LinUCB]').hidden")
        assert browser.complaints() == []
