import pytest
from fuzz.fuzz_oracles import main


@pytest.mark.parametrize("seed", [0, 1])
def test_bad_values_are_refused_with_errors_of_this_package(seed):
    assert not main(300, seed)
