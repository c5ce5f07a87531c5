import numpy as np

from treebandit.reports.palette import LOOKS, SPARE, in_order, looks
from treebandit.reports.paper import paper_table


def lab(colour):
    """A colour in CIELAB, where distances are about what the eye sees."""
    code = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    x, y, z = np.cbrt(to_xyz @ linear / [0.9505, 1.0, 1.0888])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_looks_are_fixed_and_different():
    agents = [*paper_table()["agent"].unique(maintain_order=True), "treebandit", "Uniform"]
    drawn = looks(agents)
    assert len({look.colour for look in drawn.values()}) == len(agents)
    solid = {agent for agent in agents if not drawn[agent].dashes}
    assert solid == {"treebandit", "TEUCB-XGBoost", "TETS-XGBoost", "TEUCB-RF", "TETS-RF"}
    assert looks(["my own"]) == looks(["my own"])
    assert in_order(["zebra", "LinUCB", "TEUCB-RF", "ape", "ape"]) == ["TEUCB-RF", "LinUCB", "ape", "zebra"]


def test_agents_of_users_have_colours_that_nobody_else_has():
    own = [f"my agent {place}" for place in range(len(SPARE))]
    colours = [look.colour for look in looks([*LOOKS, *own]).values()]
    assert len(set(colours)) == len(colours)
    places = np.array([lab(colour) for colour in colours])
    distances = np.linalg.norm(places[:, None] - places, axis=2) + 100 * np.eye(len(places))
    assert distances[len(LOOKS) :].min() > 25
    assert len({looks([name])[name].colour for name in own}) > 4, "the name decides where it can"


def test_more_agents_than_colours_all_have_one():
    drawn = looks(f"NeuralUCB {place}" for place in range(40))
    assert len(drawn) == 40
    assert {look.kind for look in drawn.values()} == {"neural"}
