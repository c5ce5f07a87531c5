import re
from dataclasses import replace

import polars as pl
import pytest
from numpy import zeros
from reports.browser import Loads, open_page
from reports.invented import make_record, plan_row, spec_of, write_paper_like, write_varied

from treebandit.experiments.records import merge_plan, write_record
from treebandit.reports.page import write_page
from treebandit.reports.summary import read_results

AGENTS = ["TEUCB-XGBoost", "TETS-RF", "NeuralUCB", "LinUCB"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with everything: the paper's table unfinished, and two varied parameters."""
    folder = tmp_path_factory.mktemp("page")
    write_paper_like(folder / "records", seeds=2, agents=AGENTS, shorten=20, missing=1)
    write_varied(folder / "records", "exploration", [0, 0.1, 1, 100], agents=AGENTS[:2])
    write_varied(folder / "records", "coding", ["codes", "one-hot"], agents=AGENTS[:2])
    return write_page(folder / "records", folder / "report.html")


def test_page_shows_the_study_and_loads_nothing(page):
    text = page.read_text(encoding="utf-8")
    loads = Loads()
    loads.feed(text)
    assert loads.found == []
    assert "default-src 'none'" in text
    assert "103 of 104 runs are finished; means are of those so far." in text
    assert "Runs still to come" in text
    assert "A &lt;fast&gt; one" in text
    assert "numpy 2.4.6" in text
    assert "arXiv:2402.06963" in text
    assert "paper 1532.5 ± 27.8" not in text, "the paper played more rounds"
    assert page.stat().st_size < 1_300_000


def test_every_chart_is_drawn_without_complaint(page, browser):
    open_page(browser, page)
    wanted = len(re.findall('class="chart"', page.read_text(encoding="utf-8")))
    assert wanted == 3 * 4 + 2 * 2
    assert browser.evaluate("document.body.dataset.drawn") == str(wanted)
    marks = "c.querySelector('.mark-line path, .mark-rule line, .mark-rect path')"
    drawn = f"[...document.querySelectorAll('.chart')].filter(c => {marks})"
    assert browser.evaluate(f"{drawn}.length") == wanted
    assert browser.complaints() == []


def test_legend_click_hides_an_agent_everywhere_and_brings_it_back(page, browser):
    open_page(browser, page)
    agent = '.legend button[data-agent="LinUCB"]'
    lines = "document.querySelectorAll('#regret-curves-0 .mark-line path').length"
    rows = (
        "[...document.querySelectorAll('#final-regret-0 text')].filter(t => t.textContent == 'LinUCB').length"
    )
    assert (browser.evaluate(lines), browser.evaluate(rows)) == (4, 1)
    browser.click(agent)
    browser.wait_for(f"{lines} == 3 && {rows} == 0")
    assert browser.evaluate(f"document.querySelector('{agent}').getAttribute('aria-pressed')") == "false"
    browser.click(".legend .all")
    browser.wait_for(f"{lines} == 4 && {rows} == 1")
    assert browser.evaluate(f"document.querySelector('{agent}').getAttribute('aria-pressed')") == "true"
    assert browser.complaints() == []


def test_pointing_at_a_name_makes_it_stand_out(page, browser):
    open_page(browser, page)
    lines = "[...document.querySelectorAll('#regret-curves-0 .mark-line path')]"
    faint = f"{lines}.filter(p => +(p.getAttribute('opacity') ?? 1) < 0.5).length"
    assert browser.evaluate(faint) == 0
    browser.evaluate("document.querySelector('.legend button').dispatchEvent(new Event('mouseenter'))")
    browser.wait_for(f"{faint} == 3")


def test_page_fits_a_phone(page, browser):
    browser.resize(390, 800)
    try:
        open_page(browser, page)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        charts = "[...document.querySelectorAll('svg.marks')]"
        widest = f"Math.max(...{charts}.map(s => s.getBoundingClientRect().width))"
        assert 250 < browser.evaluate(widest) <= 390
        assert browser.complaints() == []
    finally:
        browser.resize(1280, 900)


def test_long_names_leave_the_charts_their_width_on_a_phone(tmp_path, browser):
    agents = [
        "an agent with a very long name indeed " * 4,
        "x" * 200,
        *(f"agent {place}" for place in range(9)),
    ]
    for place, agent in enumerate(agents):
        spec = spec_of(agent, "a problem with a long name " * 4, 0, 30 if place else 60)
        write_record(make_record(spec, zeros(spec["rounds"])), tmp_path)
    browser.resize(390, 800)
    try:
        open_page(browser, write_page(tmp_path, tmp_path / "report.html"))
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        plots = "[...document.querySelectorAll('#regret-curves-0 .mark-group .background')]"
        assert browser.evaluate(f"{plots}[0].getBoundingClientRect().width") > 200
    finally:
        browser.resize(1280, 900)


def test_names_cannot_break_the_page(tmp_path, browser):
    name = '</script><b>it\'s {{ title }} {% raw %} \\ "bad"</b><!--'
    for problem in range(6):
        environment = {"name": f"{name} {problem}", "class": name}
        spec = spec_of(name, environment["name"], 0, 30) | {"environment": environment, "study": "<i>&"}
        record = make_record(spec, zeros(30), note="<script>fail()</script>")
        record.provenance["unit"] = "<b>'\"s"
        write_record(record, tmp_path)
        merge_plan(tmp_path, [plan_row(spec)])
    results = read_results(tmp_path)
    titles = results.plan.with_columns(title=pl.lit(name), source=pl.lit(name))
    file = write_page(replace(results, plan=titles), tmp_path / "report.html")
    open_page(browser, file)
    assert browser.evaluate("document.querySelector('h1').textContent") == name
    assert browser.evaluate("document.querySelector('.legend button').dataset.agent") == name
    bold = browser.evaluate("document.querySelectorAll('b').length")
    assert bold == 6, "the best of each problem is bold, and nothing else"
    assert browser.evaluate("document.querySelectorAll('#regret-by-problem-1 .mark-symbol path').length") == 6
    axis = "[...document.querySelectorAll('#final-regret-0 text')].map(t => t.textContent)"
    assert "final regret (<b>'\"s)" in browser.evaluate(axis)
    browser.click(".legend button")
    browser.wait_for("document.querySelectorAll('#regret-curves-0 .mark-line path').length == 0")
    assert [text for text in browser.complaints() if "Infinite extent" not in text] == []
