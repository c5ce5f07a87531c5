"""The log of the generated shop."""

import pytest

from treebandit.evaluation import shop_log


@pytest.fixture(scope="module")
def log():
    return shop_log(6_000, seed=5)
