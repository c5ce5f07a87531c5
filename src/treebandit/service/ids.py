"""Ids that nobody else makes: as random as uuid4, without asking the system each time."""

from __future__ import annotations

import os
import random


class Ids:
    """128 random bits in hexadecimal; a process that forks begins anew."""

    def __init__(self) -> None:
        self._random, self._pid = random.Random(os.urandom(32)), os.getpid()

    def new(self) -> str:
        """The next one."""
        if self._pid != os.getpid():
            self.__init__()  # type: ignore[misc]
        return f"{self._random.getrandbits(128):032x}"


IDS = Ids()
