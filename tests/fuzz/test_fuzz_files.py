from fuzz.fuzz_files import main


def test_forged_files_are_refused_or_work():
    found = main(150, seed=0)
    assert (found["raw errors"], found["crashes"], found["hangs"]) == (0, 0, 0)
    assert found["refused"] > 50
    assert found["loaded and fine"] > 10
