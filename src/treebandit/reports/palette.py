"""How an agent looks: one colour and one line per name, the same in every figure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

SOLID: tuple[int, ...] = ()
DASHED = (7, 3)
DOTTED = (2, 2)
DASH_DOT = (9, 3, 2, 3)
SPARSE = (4, 4)


@dataclass(frozen=True, slots=True)
class Look:
    """Colour, dashes of the line, and the kind of agent they show."""

    colour: str
    dashes: tuple[int, ...]
    kind: str


# The line shows the kind of agent and the colour its name, so that within one kind of line at most five
# colours must be distinguished: they are taken from Okabe and Ito, and Tol, and differ in lightness too.
LOOKS = {
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
#: For all other names: at least 25 units of CIELAB from every colour above and from each other.
SPARE = (
    "#6677FF", "#FF4455", "#FF9988", "#FF77EE", "#00CC66", "#AAAAFF",
    "#AA4433", "#996600", "#995566", "#DDAA66", "#AABB77", "#008899",
)  # fmt: skip
_KINDS = {
    ("TEUCB", "TETS"): (SOLID, "tree ensemble"),
    ("TreeBootstrap", "BanditForest"): (DASHED, "tree bootstrap"),
    ("Neural",): (DOTTED, "neural"),
    ("Lin",): (DASH_DOT, "linear"),
}


def looks(agents: Iterable[str]) -> dict[str, Look]:
    """The look of each agent, in reading order; no two share a colour unless there are too many for that.

    A name without a look of its own gets a spare colour that its name decides, or the next one that is free.
    """
    found: dict[str, Look] = {}
    free: list[str] = []
    for agent in in_order(agents):
        if agent in LOOKS:
            found[agent] = LOOKS[agent]
            continue
        free = free or list(SPARE)
        place = int.from_bytes(hashlib.sha256(agent.encode()).digest()[:4], "big") % len(SPARE)
        colour = next(each for each in (*SPARE[place:], *SPARE[:place]) if each in free)
        free.remove(colour)
        found[agent] = Look(colour, *_kind(agent))
    return found


def in_order(agents: Iterable[str]) -> list[str]:
    """Agents in the order of every table and legend: those known here first, then the others by name."""
    known = {name: place for place, name in enumerate(LOOKS)}
    return sorted(set(agents), key=lambda name: (known.get(name, len(known)), name))


def _kind(agent: str) -> tuple[tuple[int, ...], str]:
    kinds = (drawn for starts, drawn in _KINDS.items() if agent.startswith(starts))
    return next(kinds, (SPARSE, "other"))
