import struct
import xml.etree.ElementTree as ElementTree

import pytest
from reports.driven import drive
from reports.invented import write_paper_like, write_varied

from treebandit.errors import SavedFileError
from treebandit.reports.figures import figures, write_figures
from treebandit.reports.palette import LOOKS
from treebandit.reports.summary import read_results

TREES = ["TEUCB-XGBoost", "TETS-XGBoost", "TEUCB-RF", "TETS-RF"]


def texts(svg):
    return [node.text for node in ElementTree.fromstring(svg.read_text()).iter() if node.tag.endswith("text")]


def size_of(png):
    content = png.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


def test_paper_like_study_is_drawn_as_svg_and_png(tmp_path):
    write_paper_like(tmp_path / "records", seeds=2, agents=[*TREES, "LinUCB"], shorten=20)
    files = write_figures(tmp_path / "records", tmp_path / "figures")
    names = {"regret-curves", "final-regret", "time-per-round"}
    assert {file.name for file in files} == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert sorted(files) == sorted((tmp_path / "figures").iterdir())
    for file in files:
        if file.suffix == ".png":
            assert min(size_of(file)) > 500
        else:
            drawn = texts(file)
            assert {"adult, 500 rounds", "mushroom, 406 rounds", "TEUCB-RF"} <= set(drawn)


def test_colours_are_the_agents_own_in_every_figure(tmp_path):
    write_paper_like(tmp_path / "records", seeds=2, agents=TREES, shorten=20)
    write_varied(tmp_path / "records", "max_depth", [2, 4, "unlimited"], agents=TREES[2:])
    files = {file.stem: file.read_text() for file in write_figures(tmp_path / "records", tmp_path / "figures")
             if file.suffix == ".svg"}  # fmt: skip
    for name in ("regret-curves", "final-regret", "sensitivity-max-depth"):
        assert LOOKS["TETS-RF"].colour in files[name]
    assert LOOKS["TEUCB-XGBoost"].colour not in files["sensitivity-max-depth"]


@pytest.mark.parametrize(
    ("values", "log"), [([1, 10, 1000], True), ([0, 0.01, 100], True), ([2, 4, "unlimited"], False)]
)
def test_sensitivity_names_its_values_and_seeds(tmp_path, values, log):
    write_varied(tmp_path / "records", "learner.some_setting", values, agents=TREES, seeds=3)
    svg, png = write_figures(tmp_path / "records", tmp_path / "figures")
    drawn = texts(svg)
    assert {str(value) for value in values} <= set(drawn)
    assert ("some setting (log scale)" in drawn) == log
    assert "Final regret over some setting, mean ± sd of 3 seeds" in drawn
    assert {"adult, 300 rounds", "mushroom, 300 rounds"} <= set(drawn)
    assert min(size_of(png)) > 500


def test_values_of_words_are_categories(tmp_path):
    write_varied(tmp_path, "coding", ["codes", "it's one-hot"], agents=TREES)
    svg, _ = write_figures(tmp_path, tmp_path / "figures")
    assert {"codes", "it's one-hot", *TREES} <= set(texts(svg))


def test_curves_are_thinned(tmp_path):
    write_paper_like(tmp_path, seeds=1, agents=["LinUCB"])
    (curves, *_) = figures(read_results(tmp_path))
    assert curves.name == "regret-curves"
    sizes = [data.count("\n") - 1 for data in curves.chart().to_dict()["datasets"].values()]
    assert len(sizes) == 4
    assert 150 <= min(sizes) <= max(sizes) <= 200


def test_names_that_differ_in_signs_alone_have_figures_of_their_own(tmp_path):
    for varied in ("agent.a_b", "agent.a.b", "agent.A-b"):
        write_varied(tmp_path / "records", varied, [1, 2], agents=["LinUCB"], seeds=1, rounds=20)
    files = write_figures(tmp_path / "records", tmp_path / "figures")
    assert len({file.name.lower() for file in files}) == 6
    assert sorted(files) == sorted((tmp_path / "figures").iterdir())


def test_the_regret_axis_has_a_unit(tmp_path):
    drive(tmp_path / "records", seeds=1, rounds=3, agents=["Uniform"])
    write_paper_like(tmp_path / "records", seeds=1, agents=["LinUCB"], shorten=100)
    files = {file.name: file for file in write_figures(tmp_path / "records", tmp_path / "figures")}
    assert {"regret (s)", "regret (units of reward)"} <= set(texts(files["regret-curves.svg"]))
    assert {"final regret (s)", "final regret (units of reward)"} <= set(texts(files["final-regret.svg"]))


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    write_paper_like(tmp_path / "records", seeds=1, agents=["LinUCB"], shorten=100)
    (tmp_path / "file").touch()
    with pytest.raises(SavedFileError, match="cannot be written"):
        write_figures(tmp_path / "records", tmp_path / "file")
