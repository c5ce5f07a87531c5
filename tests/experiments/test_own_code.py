"""A study is played with the modules beside it, whatever another study has loaded in the same process."""

import sys

import pytest

from treebandit.errors import StudyError
from treebandit.experiments import execute, load_runs, load_study, play, read_record
from treebandit.experiments.cluster import play_remotely

AGENT = """
from helper_of_mine import LAST

class Mine:
    def score(self, candidates):
        return [float(row == LAST) for row in range(len(candidates))]

    def learn(self, chosen, rewards):
        pass
"""
STUDY = """
rounds = 3
seeds = 1
environments = ["shuttle"]
agents = [{ name = "Mine", class = "agents_of_mine:Mine" }]
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a study whose agent always chooses one arm."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name, arm, file="helper_of_mine.py", text="LAST = {}\n"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "agents_of_mine.py").write_text(AGENT)
        (folder / file).write_text(text.format(arm))
        (folder / "s.toml").write_text(STUDY)
        return folder / "s.toml"

    yield write
    for name in [name for name in sys.modules if "_of_mine" in name]:
        sys.modules.pop(name)


def first(study):
    return next(load_study(study).runs())


def arms(record):
    return {arm for row in record.frame["arms"].to_list() for arm in row}


def test_two_studies_of_one_process_have_their_own_modules(write):
    one, other = first(write("one", 1)), first(write("other", 2))
    assert [arms(play(spec)) for spec in (one, other, one)] == [{1}, {2}, {1}]


def test_runs_of_two_studies_in_one_folder_have_their_own_modules(write, tmp_path):
    study = write("other", 2)
    study.write_text(study.read_text().replace('"Mine",', '"Other",'))
    specs = [first(write("one", 1)), first(study)]
    assert "failed" not in {event.kind for event in execute(specs, tmp_path / "records")}
    runs = load_runs(tmp_path / "records").sort("agent")
    found = [arms(read_record(tmp_path / "records" / f"{run_id}.parquet")) for run_id in runs["run_id"]]
    assert found == [{1}, {2}]
    codes = [play(spec).provenance["code"]["agents_of_mine"] for spec in specs]
    assert codes[0] == codes[1], "the agents are the same, what they import is not"


def test_a_study_that_is_loaded_again_has_the_code_as_it_is_now(write):
    spec = first(write("one", 1))
    assert arms(play(spec)) == {1}
    study = write("one", 20, text="LAST = {} // 10\n")
    assert arms(play(spec)) == {1}, "runs of a study that was loaded go on as they began"
    assert arms(play(first(study))) == {2}


def test_a_module_in_a_folder_without_init_is_that_of_the_study(write, tmp_path):
    found = []
    for name, arm in (("one", 1), ("other", 2)):
        study = write(name, arm)
        (study.parent / "parts_of_mine").mkdir()
        (study.parent / "helper_of_mine.py").write_text(
            "from parts_of_mine import value\nLAST = value.LAST\n"
        )
        (study.parent / "parts_of_mine" / "value.py").write_text(f"LAST = {arm}\n")
        found.append(arms(play(first(study))))
    assert found == [{1}, {2}]


def test_a_study_finds_no_module_of_another(write):
    first(write("one", 1))
    study = write("other", 2)
    (study.parent / "helper_of_mine.py").unlink()
    (spec,) = load_study(study).runs()
    with pytest.raises(ModuleNotFoundError, match="helper_of_mine"):
        play(spec)


def test_agents_of_another_folder_are_found_beside_their_file(write, tmp_path):
    write("sub", 2)
    (tmp_path / "s.toml").write_text(
        'rounds = 3\nseeds = 1\nenvironments = ["shuttle"]\nagents_of = "sub/s.toml"\n'
    )
    (spec,) = load_study(tmp_path / "s.toml").runs()
    assert arms(play(spec)) == {2}
    into = tmp_path / "records"
    assert [event.kind for event in execute([spec], into)][-1] == "finished"
    assert load_runs(into)["other_code"].to_list() == [""]
    (tmp_path / "sub" / "agents_of_mine.py").write_text(AGENT + "# edited\n")
    assert load_runs(into)["other_code"].to_list() == ["agents_of_mine has changed"]
    (skipped,) = execute([spec], into)
    assert skipped.reason == "agents_of_mine has changed"


def test_runs_are_stale_when_a_module_has_changed_that_their_agent_imports(write, tmp_path):
    study, into = write("study", 1), tmp_path / "records"
    package = study.with_name("parts_of_mine")
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text("from . import second\n")
    (package / "second.py").write_text("")
    helper = study.with_name("helper_of_mine.py")
    helper.write_text("import parts_of_mine.first\n\nLAST = 1\n")
    study.write_text(STUDY.replace("agents = [", 'agents = ["Uniform", '))
    assert [event.kind for event in execute(load_study(study).runs(), into, workers=1)].count("finished") == 2
    assert set(load_runs(into)["other_code"]) == {""}
    for changed, name in ((package / "second.py", "parts_of_mine.second"), (helper, "helper_of_mine")):
        before = changed.read_text()
        changed.write_text("LAST = 2\n")
        assert sorted(load_runs(into)["other_code"]) == [
            "",
            f"{name} has changed",
        ]  # never the run of Uniform
        changed.write_text(before)


def test_a_module_beside_both_files_is_refused(write, tmp_path):
    write("sub", 2)
    study = write("", 1)
    study.write_text('environments = ["shuttle"]\nagents_of = "sub/s.toml"\n')
    with pytest.raises(
        StudyError, match="module 'agents_of_mine' of agent 'Mine' is in .* and in .*sub; give"
    ):
        load_study(study)


def test_modules_of_one_name_in_two_studies_of_a_folder_are_not_stale(write, tmp_path):
    other = write("other", 2)
    other.write_text(STUDY.replace('"Mine",', '"Other",'))
    other.with_name("agents_of_mine.py").write_text(AGENT + "# other\n")
    for study in (write("one", 1), other):
        assert [event.kind for event in execute([first(study)], tmp_path / "records")][-1] == "finished"
    assert load_runs(tmp_path / "records")["other_code"].to_list() == ["", ""]


def test_a_worker_of_a_cluster_plays_the_code_of_the_caller(write, tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as local:

        def played(study, into, **given):
            address = local.scheduler_address
            events = list(execute([first(study)], tmp_path / into, cluster=address, **given))
            assert [event.kind for event in events] == ["started", "finished"], events
            return [arms(read_record(path)) for path in (tmp_path / into).glob("*.parquet")]

        assert played(write("one", 1), "a") == [{1}]
        assert played(write("other", 2), "b") == [{2}]
        assert played(write("one", 30, text="LAST = {} // 10\n"), "c") == [{3}]
        study = write("one", 40, text="LAST = {} // 10\n# edited\n")
        study.with_name("agents_of_mine.py").write_text(AGENT + "# edited\n")
        assert played(study, "c", again=True) == [{4}]


def test_a_worker_with_other_code_than_the_caller_does_not_play(write):
    spec = first(write("one", 1))
    answer = play_remotely(spec, [], {"helper_of_mine": "0123456789ab"})
    assert "StudyError: helper_of_mine: this worker has other code" in answer


def test_a_worker_forgets_where_an_earlier_caller_looked_for_modules(write, tmp_path):
    folders = [write(name, arm).parent for name, arm in (("one", 1), ("other", 2))]
    elsewhere = tmp_path / "study"
    elsewhere.mkdir()
    (elsewhere / "s.toml").write_text(STUDY)
    sys.path.insert(0, str(folders[0]))
    spec = first(elsewhere / "s.toml")
    sys.path.remove(str(folders[0]))
    found = [arms(play_remotely(spec, [str(folder)], {})) for folder in folders]
    assert found == [{1}, {2}]


def test_a_class_that_is_missing_is_named_with_its_study(write):
    study = write("one", 1)
    study.write_text(STUDY.replace("agents_of_mine:", "agents_that_nobody_has:"))
    with pytest.raises(StudyError, match="no module 'agents_that_nobody_has'"):
        load_study(study)
