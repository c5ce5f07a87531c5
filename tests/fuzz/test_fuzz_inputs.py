"""A few cases of the long fuzzing of inputs, so that `make test` sees what `make fuzz` would."""

from fuzz.fuzz_inputs import fuzz


def test_odd_inputs_get_own_errors_and_change_nothing():
    assert fuzz(300, seed=0) == (300, [], [])
