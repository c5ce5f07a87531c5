"""What is wrong with the service, and with which bandit: who may not know of a bandit is told nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Failure(NamedTuple):
    """What does not work, and of which bandit; None where it is of all."""

    what: str
    bandit: str | None = None

    def __str__(self) -> str:
        return self.what if self.bandit is None else f"{self.what} of {self.bandit}"


#: What does not work -> why.
Failures = dict[Failure, str]


def shown_failures(failures: Mapping[Failure, str], sees: Callable[[str], bool]) -> dict[str, str]:
    """Those that somebody who `sees` some bandits may know of, in words."""
    return {str(each): why for each, why in failures.items() if each.bandit is None or sees(each.bandit)}
