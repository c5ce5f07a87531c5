"""The settings of a bandit."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

import msgspec

from treebandit import registry
from treebandit.errors import MissingExtraError, ParameterError, TreebanditError
from treebandit.service.saved_agents import publishable

Aggregation = Literal["first", "last", "sum", "mean"]
Mode = Literal["online", "apprentice", "log-only"]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e10)]

#: Seeds in JSON: every language reads whole numbers of 31 bits.
_SEEDS = 2**31
_LARGEST = 1e300
#: Rewards and default rewards are within ± this, so that sums and squares of them are finite.
LARGEST_REWARD = 1e30


class BanditConfig(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The settings of a bandit; all may be left out.

    agent: what decides, {"class": "Bandit", ...}: a class of treebandit and its arguments. reward_default: what a
    decision without a reward has earned at the end of its wait; null: nothing is learned from it. wait: seconds in
    which rewards count. aggregation: which of several rewards counts. mode: `online` decides; `apprentice` answers the
    caller's baseline and learns from it; `log-only` answers the baseline and learns nothing. floor: share of decisions
    that is spread over all arms. draws: samples that a probability is counted in. holdout: share of decisions that
    `holdout_policy` makes instead: `uniform`, `baseline`, or `arm:NAME`. columns: features with their kinds,
    {"age": "number", "city": "category", "member": "flag"}; others may come. retention: days after which decisions
    and their rewards are deleted, no shorter than wait; null: never. learning: false, the model stays as it is.
    """

    agent: dict[str, Any] = {}
    reward_default: float | None = 0.0
    wait: Seconds = 600.0
    aggregation: Aggregation = "first"
    mode: Mode = "online"
    floor: Share = 0.01
    draws: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    holdout: Share = 0.0
    holdout_policy: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "uniform"
    columns: dict[str, Any] = {}
    retention: Annotated[float, msgspec.Meta(gt=0.0, le=1e6)] | None = None
    learning: bool = True
    description: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    #: What Personalizer's clients set and read back, and this service has no use for.
    personalizer: dict[str, Any] = {}

    @property
    def wait_us(self) -> int:
        """The wait in microseconds."""
        return round(self.wait * 1e6)


def checked(config: BanditConfig, *, known: bool = False) -> BanditConfig:
    """The settings with an agent that can be built; a seed is drawn where none is given, so that replays agree.

    known: the agent was tried when its bandit was made.
    """
    default = config.reward_default
    if default is not None and not abs(default) <= LARGEST_REWARD:
        raise ParameterError(
            f"reward_default={default}; give a finite number within ±{LARGEST_REWARD:g}, or null"
        )
    if config.retention is not None and 86_400 * config.retention < config.wait:
        raise ParameterError(
            f"retention={config.retention:g} days is shorter than wait={config.wait:g} seconds, so that decisions "
            "would be deleted before their rewards count; give a longer retention or a shorter wait"
        )
    policy = config.holdout_policy
    if policy not in ("uniform", "baseline") and not (policy.startswith("arm:") and len(policy) > 4):
        raise ParameterError(f"holdout_policy={policy!r}; give 'uniform', 'baseline' or 'arm:NAME'")
    agent = {"class": "Bandit", **config.agent}
    config = msgspec.structs.replace(config, agent=agent)
    made = build_agent(config)
    if not known:
        _try_out(made)
    if agent.get("seed") is None:
        seeded = {**agent, "seed": secrets.randbelow(_SEEDS)}
        if hasattr(made, "seed"):
            config = msgspec.structs.replace(config, agent=seeded)
    return config


def build_agent(config: BanditConfig) -> Any:
    """A fresh agent by its description; only classes of treebandit can be named."""
    description: dict[str, Any] = {"class": "Bandit", **config.agent, "new_columns": True}
    if config.columns:
        description["columns"] = config.columns
    check_description(description)
    try:
        agent = registry.build(description, kinds=("agent", "tree learner"), where="agent")
    except (ValueError, TypeError, OverflowError) as error:
        # What a class says to arguments that it does not check itself, such as a seed below 0.
        if isinstance(error, TreebanditError):
            raise
        raise ParameterError(f"the agent cannot be made: {error}; look at its arguments") from error
    if not hasattr(agent, "learn"):
        raise ParameterError(f"agent is a {type(agent).__name__}; name an agent, such as Bandit or LinUCB")
    return agent


def _try_out(agent: Any) -> None:
    """Refuse an agent that could not learn here, or whose models could never be published."""
    try:
        agent.learn([{}, {}], [0.0, 1.0], arms=["an arm", "another"], new_arms=True)
        publishable(agent)
    except MissingExtraError:
        raise
    except Exception as error:
        raise ParameterError(f"the agent cannot be used here: {error}") from error


def check_description(description: Any) -> None:
    """Refuse an agent whose choices depend on time, as a replay would not give its model; and numbers beyond floats."""
    if isinstance(description, dict) and description.get("background"):
        raise ParameterError(
            "an agent with background=True; leave it out, as the service rebuilds in its learner's process"
        )
    for part in description.values() if isinstance(description, dict) else description:
        if isinstance(part, int | float) and abs(part) > _LARGEST:
            raise ParameterError(f"the number {str(part)[:40]} in the agent; give one within ±{_LARGEST:g}")
        if isinstance(part, dict | list):
            check_description(part)


def changed(before: BanditConfig, patch: dict[str, Any]) -> BanditConfig:
    """Settings with some of them replaced; the agent of a bandit stays what it is."""
    merged = {**msgspec.to_builtins(before), **patch}
    try:
        after = msgspec.convert(merged, BanditConfig)
    except msgspec.ValidationError as error:
        raise ParameterError(str(error)) from error
    after = checked(after, known=True)
    same = {**after.agent, "seed": before.agent.get("seed")}
    if same == before.agent:  # but for the seed, which was drawn anew
        after = msgspec.structs.replace(after, agent=same)
    if after.agent != before.agent or after.columns != before.columns:
        raise ParameterError(
            "agent and columns of a bandit cannot be changed, as its log was learned by it; make another bandit, or "
            "upload a model"
        )
    return after
