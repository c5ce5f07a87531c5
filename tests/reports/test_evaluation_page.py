"""The page of an evaluation, in a real browser."""

import csv
import io
import json
import re

import pytest
from reports.browser import Loads, open_page

from treebandit.evaluation import DecisionLog, evaluate, shop_log
from treebandit.reports import write_evaluation_page
from treebandit.reports.evaluation_figures import evaluation_figures
from treebandit.trees import HistogramForest

QUICK = HistogramForest(n_trees=5, max_depth=4)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    found = evaluate(
        shop_log(900, seed=0),
        {"uniform": "uniform", "logging": "logging", "water": "arm:water", "coffee, always": "arm:coffee"},
        estimators=("ips", "snips", "dr"),
        reward_model=QUICK,
    )
    assert [policy.refusal is None for policy in found.policies] == [True, True, True, True]
    return write_evaluation_page(found, tmp_path_factory.mktemp("page") / "evaluation.html")


def test_the_page_asks_nobody(page):
    text = page.read_text(encoding="utf-8")
    loads = Loads()
    loads.feed(text)
    assert loads.found == []
    assert "default-src 'none'" in text


def test_every_chart_is_drawn_without_complaint(page, browser):
    open_page(browser, page)
    wanted = len(re.findall('class="chart"', page.read_text(encoding="utf-8")))
    assert wanted == 8
    assert browser.evaluate("document.body.dataset.drawn") == str(wanted)
    drawn = "[...document.querySelectorAll('.chart svg.marks')].filter(s => s.getBoundingClientRect().width > 200)"
    assert browser.evaluate(f"{drawn}.length") == wanted
    assert browser.evaluate("document.querySelectorAll('#estimates-0 .mark-symbol path').length") >= 9
    assert browser.complaints() == []


def test_the_table_tells_sample_sizes_and_what_is_refused(page, browser):
    open_page(browser, page)
    rows = browser.evaluate("[...document.querySelectorAll('tbody tr[data-policy]')].map(r => r.textContent)")
    assert len(rows) == 4
    assert all("100 %" in row for row in rows)  # support
    values = browser.evaluate("[...document.querySelectorAll('tr[data-estimates] small')].length")
    assert values == 4 * 3
    refused = browser.evaluate("[...document.querySelectorAll('tr.refused')].map(r => r.dataset.policy)")
    first = browser.evaluate("document.querySelector('main h2').textContent")
    assert first == "What the estimates rest on"
    stated = browser.evaluate("[...document.querySelectorAll('main .progress')].map(p => p.textContent)")
    assert len(refused) == sum("not enough evidence" in text for text in stated)


def test_the_page_fits_a_phone(page, browser):
    browser.resize(390, 800)
    try:
        open_page(browser, page)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        assert browser.complaints() == []
    finally:
        browser.resize(1280, 900)


def test_names_cannot_break_the_page(tmp_path, browser):
    bad = '</script><b>it\'s {{ x }} \\ "bad"</b><!--'
    log = DecisionLog.from_records(
        [
            {
                "id": str(n),
                "arms": [bad, "b"],
                "chosen": [n % 2],
                "probability": 0.5,
                "probabilities": [0.5, 0.5],
                "reward": n % 3,
            }
            for n in range(80)
        ],
        source=bad,
    )
    found = evaluate(log, {bad: f"arm:{bad}", "few": "arm:b"}, estimators=("ips",), least_effective=39)
    file = write_evaluation_page(found, tmp_path / "page.html")
    open_page(browser, file)
    assert browser.evaluate("document.querySelectorAll('b').length") == 0
    assert browser.evaluate("document.querySelector('tbody tr').dataset.policy") == bad
    assert browser.evaluate("document.querySelector('.source').textContent") == bad
    assert browser.complaints() == []


def test_a_page_without_any_estimate(tmp_path, browser):
    found = evaluate(shop_log(40, seed=0), ["arm:water"], estimators=("ips",))
    assert not found["arm:water"].estimates
    open_page(browser, write_evaluation_page(found, tmp_path / "page.html"))
    assert "not enough evidence" in browser.evaluate("document.body.textContent")
    assert json.loads(browser.evaluate("document.getElementById('specs').textContent"))
    assert browser.complaints() == []


def test_bands_over_time_have_the_range_of_all_rows_played():
    """Three of six rows pay nothing, so that a page may pay up to 3."""
    rows = [[number % 6, (number + 1) % 6, (number + 2) % 6] for number in range(120)]
    log = DecisionLog.from_records(
        {
            "id": str(number),
            "arms": list("abcdef"),
            "chosen": chosen,
            "probabilities": [0.5] * 6,
            "rewards": [0, 0, 0],
        }
        for number, chosen in enumerate(rows)
    )
    figures = {
        each.name: each for each in evaluation_figures(evaluate(log, ["uniform"], estimators=("ips",)))
    }
    assert "for rewards from 0 to 3" in figures["over-time"].text
    (shown,) = figures["over-time"].panels[0].to_dict()["datasets"].values()
    first = next(csv.DictReader(io.StringIO(shown)))
    assert 1 < float(first["high"]) <= 3
