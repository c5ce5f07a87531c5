import pytest
import toys

from treebandit.environments import Classification, Delayed, Navigation
from treebandit.errors import StudyError
from treebandit.experiments.build import build_agent, build_environment, check_runs, check_table
from treebandit.experiments.study_file import load_study, shipped_studies


def agent(**changes):
    return {"name": "A", "class": "toys:Means", **changes}


def test_an_agent_with_nested_parts_and_its_seed():
    inner = {"class": "toys:Part", "size": 2, "part": {"class": "toys:Part", "size": 3}}
    built = build_agent(agent(noise=0.5, inner=inner), seed=7)
    assert built == toys.Means(noise=0.5, inner=toys.Part(2, toys.Part(3)), seed=7)


def test_unlimited_is_none():
    inner = {"class": "toys:Part", "size": "unlimited"}
    assert build_agent(agent(inner=inner), seed=7).inner == toys.Part(None)


@pytest.mark.parametrize("name", [name for name in shipped_studies() if load_study(name).varied])
def test_every_value_of_a_shipped_study_can_be_built(name):
    for run in load_study(name).select(seeds=1).runs():
        assert build_agent(run.agent, seed=0) is not None
    assert build_environment(run.environment, seed=0) is not None


def test_an_argument_named_batch_is_refused_where_the_study_keeps_it_for_itself(monkeypatch):
    class Own(Classification):
        def __init__(self, batch=1):
            super().__init__("mushroom")

    monkeypatch.setattr(toys, "Own", Own, raising=False)
    with pytest.raises(
        StudyError, match="environment 'late': 'toys:Own' has an argument 'batch', which it cannot"
    ):
        build_environment({"name": "late", "class": "toys:Own", "batch": 5}, seed=0)


def test_the_name_reaches_a_class_that_takes_one(monkeypatch):
    class Own(toys.Means):
        def __init__(self, name="none"):
            super().__init__()
            self.name = name

    monkeypatch.setattr(toys, "Own", Own, raising=False)
    assert build_agent({"name": "late", "class": "toys:Own"}, seed=0).name == "late"


def test_an_argument_named_batch_that_no_study_sets_is_the_constructors_own(monkeypatch):
    class Own(Classification):
        def __init__(self, batch=1):
            super().__init__("mushroom")

    monkeypatch.setattr(toys, "Own", Own, raising=False)
    assert isinstance(build_environment({"name": "n", "class": "toys:Own"}, seed=0), Own)


def test_environments_by_name_and_delayed():
    table = {"name": "m", "class": "Classification", "data": "mushroom", "batch": 5}
    late = build_environment(table, seed=3)
    assert isinstance(late, Delayed)
    assert late.batch == 5
    assert isinstance(late.environment, Classification)
    assert late.environment.seed == 3
    assert isinstance(build_environment(table, seed=3, delayed=False), Classification)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            agent(nois=1),
            "agent 'A': unknown key 'nois'; did you mean 'noise'. allowed are noise, pause, diary, inner$",
        ),
        (
            agent(inner={"class": "toys:Part", "sise": 1}),
            "agent 'A', inner: unknown key 'sise'; did you mean 'size'. allowed are size",
        ),
        (agent(**{"class": "TEUBC"}), "agent 'A': no class 'TEUBC'; did you mean 'TEUCB'. .*TEUCB"),
        (agent(**{"class": "nowhere:Agent"}), "no module 'nowhere'"),
        (agent(**{"class": "toys:Nobody"}), "module 'toys' has no class 'Nobody'"),
        (agent(**{"class": 3}), "class is 3"),
        ({"name": "A", "class": "TEUCB", "exploration": "much"}, "exploration is 'much'; expected a number"),
        (
            {"name": "A", "class": "TEUCB", "trees": {"class": "Uniform"}, "rebuild": 3},
            "rebuild is 3; expected text",
        ),
        ({"name": "A", "class": "EpsilonGreedy", "agent": 5}, "expected an object that names its class"),
        (agent(batch=3), "belongs to the environment"),
    ],
)
def test_wrong_tables(table, message):
    with pytest.raises(StudyError, match=message):
        check_table(table, "agent")


def test_only_registered_classes_are_built_from_foreign_tables():
    table = {"name": "m", "class": "Navigation", "start": "B2", "end": "K3", "roads": "small-town"}
    assert isinstance(build_environment(table, seed=0, foreign=True), Navigation)
    for change in ({"class": "toys:Part"}, {"closures": {"class": "toys:Part"}}):
        with pytest.raises(StudyError, match="'toys:Part' is no class of treebandit"):
            build_environment({**table, **change}, seed=0, foreign=True)


@pytest.mark.parametrize("name", shipped_studies())
def test_shipped_studies_name_what_exists(name):
    study = load_study(name)
    for kind, tables in (("agent", study.agents), ("environment", study.environments)):
        for table in tables:
            check_table({key: value for key, value in table.items() if key != "rounds"}, kind)


def test_a_study_of_a_log_that_is_not_here_can_be_read_and_is_refused_when_it_shall_run(monkeypatch):
    monkeypatch.delenv("TREEBANDIT_LOGS", raising=False)
    study = load_study("hillstrom")
    with pytest.raises(StudyError, match="TREEBANDIT_LOGS is not set"):
        check_runs(study.runs(), roads=True)
