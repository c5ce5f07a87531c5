"""The pages of the agents: every setting of an agent is in the table of its page."""

import dataclasses
import re
from pathlib import Path

import pytest

import treebandit
from treebandit import registry

PAGES = {
    "BanditForest": "bandit-forest",
    "BartTS": "bart",
    "EnsembleSampling": "ensemble-sampling",
    "LinTS": "linear",
    "LinUCB": "linear",
    "NeuralTS": "neural",
    "NeuralUCB": "neural",
    "EpsilonGreedy": "simple",
    "UCB1": "simple",
    "UCB1Normal": "simple",
    "UCB1Tuned": "simple",
    "Uniform": "simple",
    "TreeBootstrap": "tree-bootstrap",
    "TETS": "tree-ensembles",
    "TEUCB": "tree-ensembles",
}
#: Of all agents, and told on the page of inputs.
SHARED = {field.name for field in dataclasses.fields(treebandit.Uniform)} - {"seed"}


def test_every_agent_has_a_page():
    assert set(PAGES) == set(registry.registered("agent")) - {"Bandit"}


@pytest.mark.parametrize("name", PAGES)
def test_every_setting_is_in_the_table_of_the_page(name):
    folder = Path(__file__).parents[1] / "docs" / "agents"
    rows = re.findall(r"^\|.*", (folder / f"{PAGES[name]}.md").read_text(encoding="utf-8"), re.MULTILINE)
    told = set(re.findall(r"`(\w+)`", " ".join(rows)))
    settings = {field.name for field in dataclasses.fields(getattr(treebandit, name)) if field.init}
    assert settings - SHARED - told == set()
