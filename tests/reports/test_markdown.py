import numpy as np
from reports.invented import make_record, plan_row, spec_of, write_paper_like, write_varied

from treebandit.experiments.records import merge_plan, write_record
from treebandit.reports import as_markdown, read_results, summarise


def test_markdown_has_ours_the_papers_time_and_notes(tmp_path):
    write_paper_like(tmp_path, seeds=2, agents=["TEUCB-RF", "NeuralUCB"], missing=1)
    results = read_results(tmp_path)
    frame = summarise(results)
    text = as_markdown(frame, results)
    row = frame.filter(frame["seeds"] == 2).row(0, named=True)
    lines = text.splitlines()
    assert lines[0].startswith("| agent | adult (10,000 rounds) |")
    assert {line.count("|") for line in lines if line.startswith("|")} == {6}
    assert f"{row['regret_mean']:.0f} ± {row['regret_sd']:.0f}" in text
    assert "(1551 ± 33)" in text
    assert "15 of 16 runs are finished" in text
    assert "- NeuralUCB: last layer only" in text
    assert text.count("**") == 2 * 4


def test_a_varied_parameter_is_a_column(tmp_path):
    write_varied(tmp_path, "exploration", [0, 1, 100], agents=["TETS-RF", "TEUCB-RF"], rounds=60)
    head, _, *rows = as_markdown(summarise(tmp_path)).splitlines()
    assert head.startswith("| agent | exploration |")
    assert [row.split(" | ")[1] for row in rows[:6]] == ["0", "1", "100"] * 2


def test_names_are_text_and_stay_in_their_cell(tmp_path):
    spec = spec_of("TETS [v2](x) | <b>", "a*b*", 0, 10)
    write_record(make_record(spec, np.ones(10), note="<script>"), tmp_path)
    merge_plan(tmp_path, [plan_row(spec)])
    head, _, row, *rest = as_markdown(summarise(tmp_path)).splitlines()
    assert head.startswith("| agent | a\\*b\\* (10 rounds) |")
    assert row.startswith(r"| TETS \[v2\](x) \| \<b\> | **10")
    assert r"- TETS \[v2\](x) \| \<b\>: \<script\>" in "\n".join(rest)
