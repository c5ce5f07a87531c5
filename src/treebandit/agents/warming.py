"""Compile before the first decision, so that no request has to wait for it."""

from __future__ import annotations

import dataclasses
import reprlib
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np

from treebandit import saving
from treebandit.agents.base import BaseAgent
from treebandit.agents.model_agent import ModelAgent
from treebandit.errors import ArmsError, NoEstimateError, NotFittedError, ParameterError

_ROUNDS = 40
_WIDTH = 3
#: As many candidates, decided on so often, fill the leaf cache.
_MANY, _REPEATS = 300, 20


def warm_up(agent: BaseAgent | None = None) -> None:
    """Compile all that an agent needs to choose, decide, learn, rebuild, estimate, explain, save and load.

    Compiled code is kept on disk, for this process and later ones. The work is done on fresh agents with the same
    arguments: yours, or by default the default agent, learns nothing.
    """
    if agent is None:
        from treebandit.agents.default import Bandit

        agent = Bandit()
    if isinstance(agent, type) or not isinstance(agent, BaseAgent):
        raise ParameterError(
            f"{reprlib.repr(agent)} is no agent; give one such as LinUCB(), or nothing for Bandit()"
        )
    for arms in (["a", "b"], None):
        fresh: BaseAgent = dataclasses.replace(cast("Any", agent), seed=0, columns=None)
        with suppress(ArmsError):  # of an agent that cannot do without
            _use(fresh, arms)


def _use(agent: BaseAgent, arms: list[str] | None) -> None:
    random = np.random.default_rng(0)
    for t in range(_ROUNDS):
        contexts = random.normal(size=_WIDTH if arms else (2, _WIDTH))
        row = int(agent.choose(contexts, arms=arms)[0])
        chosen = contexts if arms else contexts[row]
        agent.learn(chosen, float(t % 3), arms=[arms[row]] if arms else None)
    labels = arms and [arms[row % 2] for row in range(_MANY)]
    many = random.normal(size=(_MANY, _WIDTH))
    agent.learn(many, many[:, 0], arms=labels)
    agent.learn(many[:2], many[:2, 0], arms=labels and labels[:2])
    for _ in range(_REPEATS):
        agent.choose(many, arms=labels)
    for rows in (2, _MANY):  # several draws are laid out in memory in another way than one
        agent.probabilities(many[:rows], arms=labels and labels[:rows], draws=2)
    for rows in (2, _MANY):
        with suppress(NotFittedError, NoEstimateError):
            agent.estimate(many[:rows], arms=labels and labels[:rows])
    if isinstance(agent, ModelAgent):
        with suppress(NotFittedError, NoEstimateError):
            agent.explain(many[:2], arms=labels and labels[:2], draws=2)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "agent")
        saving.load(Path(folder) / "agent", classes=[type(agent)])
