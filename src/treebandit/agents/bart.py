"""Thompson sampling with Bayesian additive regression trees (Chipman et al. 2010), one posterior per arm."""

from __future__ import annotations

from dataclasses import dataclass

from treebandit.agents.model_agent import ModelAgent
from treebandit.agents.random_start import StartRule
from treebandit.features.encoding import CategoryEncoding
from treebandit.models.posterior_forest import PosteriorForestModel
from treebandit.parameters import shared_fields
from treebandit.policies import Policy, Thompson
from treebandit.trees.bart import PosteriorSettings


@dataclass(eq=False)
class BartTS(ModelAgent):
    """Samples tree ensembles of each arm from a Bayesian posterior (BART); each decision follows one of each.

    n_trees: of each ensemble.
    draws: ensembles kept of each arm; a decision picks one of them at random.
    burn_in: steps of the Markov chain before the first of them.
    warm_start: ensembles grown greedily before the chain begins (XBART), from the last of which it goes on.
    exploration: ν, factor on how far a draw is from the mean of all; 1 is Thompson sampling, 0 greedy.
    rebuild: when the posterior of an arm is sampled anew: '8 ln t', 'every 100' or 'never' (after the first time), t
        being the number of the arm's own rows.
    categories: columns of categories 'one_hot' or as integer 'codes'.
    random_rounds, random_start: T_I, that many random rounds times the number of arms ('per_arm', the paper's),
        that many in all ('rounds'), or each arm in turn ('in_turn').

    An arm has trees once it has more than ten rows; without arm labels all rows share one posterior. It needs the
    library stochtree (`treebandit[bart]`).

    >>> from treebandit import BartTS
    >>> agent = BartTS(n_trees=10, draws=5, random_rounds=1, seed=0)
    >>> decision = agent.decide([1.0, 2.0], arms=["a", "b"])
    >>> agent.learn(decision, 1.0)
    """

    n_trees: int = 50
    draws: int = 20
    burn_in: int = 10
    warm_start: int = 5
    exploration: float = 1.0
    rebuild: str = "8 ln t"
    categories: CategoryEncoding = "one_hot"
    random_rounds: int = 10
    random_start: StartRule = "per_arm"
    seed: int | None = None

    def _parts(self) -> tuple[PosteriorForestModel, Policy]:
        posterior = shared_fields(PosteriorSettings, self)
        model = PosteriorForestModel(posterior, rebuild=self.rebuild, categories=self.categories)
        return model, Thompson(self.exploration)
