"""Records from elsewhere: a report shows them or refuses them in a sentence, and runs nothing of them."""

import json
import sys
from io import StringIO

import numpy as np
import pytest
from reports.invented import make_record, plan_row, spec_of
from rich.console import Console

from treebandit.experiments.records import merge_plan, write_record
from treebandit.reports import (
    as_json,
    as_markdown,
    print_table,
    read_results,
    route_maps,
    summarise,
    write_figures,
    write_page,
)

MODULE = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n" + (
    "def call(*arguments, **more):\n    pathlib.Path(__file__).with_name('called').touch()\n"
)


def write(folder, environment, *, agent="A", arms=None):
    spec = spec_of(agent, environment["name"], 0, 3) | {"environment": environment}
    record = make_record(spec, np.ones(3))
    if arms is not None:
        record = type(record)(record.spec, record.provenance, record.frame.with_columns(arms=arms))
    write_record(record, folder)
    merge_plan(folder, [plan_row(spec)])
    return read_results(folder)


@pytest.mark.parametrize(
    "environment",
    [
        {"class": "bomb:call"},
        {"class": "Navigation", "start": "B2", "end": "K3", "closures": {"class": "bomb:call", "x": 1}},
        {"class": "Navigation", "start": {"class": "bomb:call"}, "end": "K3", "roads": "small-town"},
        {"class": "Navigation", "start": "B2", "end": "K3", "roads": {"class": "bomb:call"}},
        {"class": {"class": "bomb:call"}},
    ],
)
def test_a_record_that_names_a_class_has_nothing_imported_or_called(tmp_path, monkeypatch, environment):
    (tmp_path / "bomb.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    results = write(tmp_path / "records", {"name": "e", **environment})
    write_page(results, tmp_path / "report.html")
    assert "bomb" not in sys.modules
    assert not (tmp_path / "imported").exists()
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"start": 7}, "No map of town: environment 'town': start is 7"),
        ({"end": None}, "No map of town: environment 'town': end is None"),
        ({"sha256": [1]}, "No map of town: environment 'town': sha256 is [1]"),
        ({"noise": {"class": "os:system"}}, "No map of town: environment 'town'"),
        ({"start": "nowhere"}, "No map of town: no node 'nowhere'"),
        ({"roads": "/no\0where"}, "No map of town: the road network"),
    ],
)
def test_what_cannot_be_mapped_is_a_sentence(tmp_path, changed, sentence):
    town = {"name": "town", "class": "Navigation", "start": "B2", "end": "K3", "roads": "small-town"}
    maps, (sentence_shown,) = route_maps(write(tmp_path, town | changed))
    assert maps == []
    assert sentence_shown.startswith(sentence), sentence_shown


@pytest.mark.parametrize("edge", [-1, 10_000])
def test_edges_that_the_network_lacks_are_a_sentence(tmp_path, edge):
    town = {"name": "town", "class": "Navigation", "start": "B2", "end": "K3", "roads": "small-town"}
    arms = np.full((3, 1), edge, dtype=np.int32)
    maps, (sentence_shown,) = route_maps(write(tmp_path, town, arms=arms))
    assert maps == []
    assert f"drove on edge {edge}" in sentence_shown


NAMES = [
    "",
    " ",
    "\0",
    "x" * 300,
    "\u202eabc",
    "👨‍👩‍👧",
    "a\nb",
    "=1+1",
    "null",
    "NaN",
    '"',
    "'",
    "\\",
    "$x",
    "{{x}}",
    "%s",
]


def test_any_name_is_shown_in_every_kind_of_report(tmp_path):
    for name in NAMES:
        for value in (None, name):
            varied = None if value is None else 'agent."\\'
            spec = spec_of(
                name, 'a\0"\\' if value is None else "b", 0, 5, varied=varied, value=value, study=name
            )
            write_record(make_record(spec, np.ones(5), note=name), tmp_path / "records")
            merge_plan(tmp_path / "records", [plan_row(spec)])
    report_everything(tmp_path)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_any_regret_is_shown_in_every_kind_of_report(tmp_path):
    for problem in (np.nan, np.inf, -np.inf, -1e308, 1e308, 5e-324, 0.0):
        for seed, regret in enumerate([problem, problem, 1.0]):
            for varied in (None, "agent.x"):
                spec = spec_of(
                    "A", f"p {problem}", seed, 5, varied=varied, value=None if varied is None else 1
                )
                write_record(make_record(spec, np.full(5, regret)), tmp_path / "records")
    report_everything(tmp_path)


def report_everything(folder):
    results = read_results(folder / "records")
    summary = summarise(results)
    json.loads(as_json(summary))
    print_table(summary, Console(file=StringIO(), width=80), results)
    assert as_markdown(summary, results)
    assert write_page(results, folder / "report.html").stat().st_size > 100_000
    assert len(write_figures(results, folder / "figures")) == 8
