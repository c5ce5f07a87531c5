from fuzz import fuzz_studies


def test_changed_studies_are_read_or_refused_in_one_line():
    counts = fuzz_studies.main(200, seed=1)
    assert counts["raw errors"] == counts["other errors"] == 0
    assert counts["accepted"] > 0
    assert counts["refused"] > 100
