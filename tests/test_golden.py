"""Every shipped agent chooses and earns what its golden digest says; `tests/golden/agents.py` writes them anew."""

import json

import pytest
from golden.agents import ARITHMETIC, DIGESTS, arithmetic, cases, key, play

EXPECTED = json.loads(DIGESTS.read_text())
SAME_ARITHMETIC = EXPECTED.pop(ARITHMETIC) == arithmetic()


#: The small town takes most of the time.
CASES = [pytest.param(*case, marks=[pytest.mark.slow] if case[1] == "small-town" else []) for case in cases()]


@pytest.mark.parametrize(("name", "environment", "seed"), CASES)
def test_choices_and_rewards_are_as_recorded(name, environment, seed):
    if environment == "small-town" and not SAME_ARITHMETIC:
        pytest.skip("recorded on a processor that rounds otherwise; write the digests anew before a change")
    digest, regret = play(name, environment, seed)
    recorded, before = EXPECTED[key(name, environment, seed)]
    assert digest == recorded, f"regret after 300 rounds was {before}, now {regret}"


def test_every_digest_belongs_to_a_case():
    assert set(EXPECTED) == {key(*case) for case in cases()}
