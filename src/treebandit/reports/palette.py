"""How an agent looks: one colour and one line per name, the same in every figure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

SOLID: tuple[int, ...] = ()
DASHED = (7, 3)
DOTTED = (2, 2)
DASH_DOT = (9, 3, 2, 3)
SPARSE = (1, 4)


@dataclass(frozen=True, slots=True)
class Look:
    """Colour, dashes of the line, and the kind of agent they stand for."""

    colour: str
    dashes: tuple[int, ...]
    kind: str


# The kind of agent is told by the line and the colour by the name, so that within one kind of line at most
# five colours must be told apart: they are taken from Okabe and Ito, and Tol, and differ in lightness too.
_LOOKS = {
    "treebandit": Look("#CC3377", SOLID, "tree ensemble"),
    "TEUCB-XGBoost": Look("#0072B2", SOLID, "tree ensemble"),
    "TETS-XGBoost": Look("#56B4E9", SOLID, "tree ensemble"),
    "TEUCB-RF": Look("#D55E00", SOLID, "tree ensemble"),
    "TETS-RF": Look("#E69F00", SOLID, "tree ensemble"),
    "TreeBootstrap-XGBoost": Look("#117755", DASHED, "tree bootstrap"),
    "TreeBootstrap-RF": Look("#2BB58C", DASHED, "tree bootstrap"),
    "TreeBootstrap-DT": Look("#A3A326", DASHED, "tree bootstrap"),
    "NeuralUCB": Look("#9A3C8E", DOTTED, "neural"),
    "NeuralTS": Look("#DB88BE", DOTTED, "neural"),
    "LinUCB": Look("#6E6E6E", DASH_DOT, "linear"),
    "LinTS": Look("#A8A8A8", DASH_DOT, "linear"),
    "Greedy-XGBoost": Look("#4B8B2B", SPARSE, "other"),
    "Uniform": Look("#8C6D4F", SPARSE, "other"),
}
_SPARE = ("#4477AA", "#EE6677", "#228833", "#B8A11F", "#3CA6C4", "#AA3377", "#8C6D4F", "#7A72C9")
_KINDS = {
    ("TEUCB", "TETS"): (SOLID, "tree ensemble"),
    ("TreeBootstrap", "BanditForest"): (DASHED, "tree bootstrap"),
    ("Neural",): (DOTTED, "neural"),
    ("Lin",): (DASH_DOT, "linear"),
}


def look(agent: str) -> Look:
    """The look of an agent; an unknown name gets a colour that depends on the name alone."""
    if agent in _LOOKS:
        return _LOOKS[agent]
    number = int.from_bytes(hashlib.sha256(agent.encode()).digest()[:4], "big")
    dashes, kind = next(
        (drawn for starts, drawn in _KINDS.items() if agent.startswith(starts)), (SPARSE, "other")
    )
    return Look(_SPARE[number % len(_SPARE)], dashes, kind)


def in_order(agents: list[str]) -> list[str]:
    """Agents in the order of every table and legend: those known here first, then the others by name."""
    known = {name: place for place, name in enumerate(_LOOKS)}
    return sorted(set(agents), key=lambda name: (known.get(name, len(known)), name))
