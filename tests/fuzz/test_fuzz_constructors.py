"""A few cases of the long fuzzing of constructors, so that `make test` sees what `make fuzz` would."""

from fuzz.fuzz_constructors import fuzz


def test_bad_arguments_are_told_when_an_object_is_made():
    assert fuzz(800, seed=0) == (800, [])
