import numpy as np
import pytest
from reports.driven import TOWN, drive
from reports.invented import write_paper_like

from treebandit.environments import Navigation
from treebandit.environments.navigation import FINAL_TIME
from treebandit.experiments.records import read_record, record_path
from treebandit.reports.routes import MOST_MAPS, route_maps
from treebandit.reports.summary import read_results


@pytest.fixture(scope="module")
def driven(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driven")
    return folder, drive(folder)


def test_drives_count_every_edge_of_every_seed(driven):
    folder, specs = driven
    (town,), sentences = route_maps(read_results(folder))
    assert sentences == []
    assert town.name == "small-town"
    assert {drive.agent for drive in town.drives} == {"LinUCB", "Uniform"}
    for drive_ in town.drives:
        records = [
            read_record(record_path(folder, s.run_id)) for s in specs if s.agent["name"] == drive_.agent
        ]
        counts = np.zeros(len(town.problem.network))
        for record in records:
            for path in record.frame["arms"].to_list():
                counts[path] += 1
        np.testing.assert_array_equal(drive_.times, counts)
        assert (drive_.rounds, drive_.seeds) == (6, 2)
        assert drive_.shares.max() <= 1.0
        assert drive_.regret == pytest.approx(np.mean([record.frame["regret"].sum() for record in records]))


def test_estimates_are_seconds_where_the_agent_keeps_some(driven):
    (town,), _ = route_maps(read_results(driven[0]))
    linear, uniform = town.drives
    assert uniform.estimates is None
    assert linear.estimates is not None
    on_the_way = linear.times > 6
    assert np.all(linear.estimates[on_the_way] > 0)
    np.testing.assert_array_equal(town.expected, town.problem.expected_times(FINAL_TIME))


def test_optimal_paths_are_those_of_the_whole_day(driven):
    (town,), _ = route_maps(read_results(driven[0]))
    problem = Navigation("B2", "K3", roads="small-town")
    paths = [set(problem.best_path(600.0 * place).tolist()) for place in range(144)]
    for edge in (*set.union(*paths), 0):
        assert town.optimal[edge] == pytest.approx(sum(edge in path for path in paths) / 144)


def test_the_longest_runs_of_an_agent_count(tmp_path):
    drive(tmp_path, seeds=1, rounds=3, agents=["LinUCB"])
    drive(tmp_path, seeds=2, rounds=4, agents=["LinUCB"])
    (town,), _ = route_maps(read_results(tmp_path))
    assert [(each.rounds, each.seeds) for each in town.drives] == [(4, 2)]


def test_without_its_road_network_a_map_is_a_sentence(tmp_path, monkeypatch):
    elsewhere = {key: value for key, value in TOWN.items() if key != "roads"}
    monkeypatch.setenv("TREEBANDIT_ROADS", "small-town")
    drive(tmp_path, environment=elsewhere, seeds=1, rounds=2)
    monkeypatch.delenv("TREEBANDIT_ROADS")
    maps, (sentence,) = route_maps(read_results(tmp_path))
    assert maps == []
    assert sentence.startswith("No map of small-town: no road network is given")


def test_another_road_network_is_refused(tmp_path):
    changed = {**TOWN, "sha256": "0" * 64}
    drive(tmp_path, seeds=1, rounds=2, agents=["Uniform"])
    results = read_results(tmp_path)
    spec = results.runs["spec"].str.replace(
        '"roads": "small-town"', f'"roads": "small-town", "sha256": "{"0" * 64}"'
    )
    results = type(results)(results.folder, results.runs.with_columns(spec), results.plan)
    maps, (sentence,) = route_maps(results)
    assert maps == []
    assert f"expected {changed['sha256'][:12]}" in sentence


def test_only_some_of_many_problems_are_mapped(tmp_path):
    for place in range(MOST_MAPS + 1):
        drive(tmp_path, environment={**TOWN, "name": f"pair-{place}"}, seeds=1, rounds=1, agents=["Uniform"])
    maps, (sentence,) = route_maps(read_results(tmp_path))
    assert len(maps) == MOST_MAPS
    assert sentence == f"Maps are drawn of the first {MOST_MAPS} of {MOST_MAPS + 1} problems."


def test_tables_have_no_maps(tmp_path):
    write_paper_like(tmp_path, seeds=1, agents=["LinUCB"], shorten=100)
    assert route_maps(read_results(tmp_path)) == ([], [])
