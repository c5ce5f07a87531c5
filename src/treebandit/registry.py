"""Every public name, written once, and objects as plain descriptions: for saved files, studies and the service.

What ships is one line in `_PUBLIC`. A description is made of JSON values; an object in it is {"class": its name, and
its constructor arguments}. Only registered classes and those that the caller hands over can be built from one.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from reprlib import repr as _short
from typing import Any, Literal, get_args, get_type_hints

from treebandit.errors import DescriptionError, MissingExtraError, nearest

Kind = Literal["agent", "tree learner", "environment", "oracle"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_PACKAGE = "treebandit"
_CLASS = "class"
#: Kind -> module -> names. Without a kind: public, but not to be named in files and studies.
_PUBLIC: dict[Kind | None, dict[str, str]] = {
    "agent": {
        "agents.bandit_forest": "BanditForest",
        "agents.bart": "BartTS",
        "agents.default": "Bandit",
        "agents.ensemble_sampling": "EnsembleSampling",
        "agents.linear": "LinTS LinUCB",
        "agents.neural": "NeuralTS NeuralUCB",
        "agents.simple": "EpsilonGreedy UCB1 UCB1Normal UCB1Tuned Uniform",
        "agents.tree_bootstrap": "TreeBootstrap",
        "agents.tree_ensemble": "TETS TEUCB",
    },
    "tree learner": {
        "trees.cross_validated": "CrossValidatedTrees",
        "trees.histogram_forest": "HistogramForest",
        "trees.lightgbm_trees": "LightGBMTrees",
        "trees.sklearn_trees": "DecisionTreeTrees ExtraTrees RandomForestTrees",
        "trees.xgboost_trees": "XGBoostTrees",
    },
    "environment": {
        "environments.classification": "Classification",
        "environments.clicks": "Clicks",
        "environments.delayed": "Delayed",
        "environments.logged": "Logged",
        "environments.navigation": "Navigation",
        "environments.synthetic": "DescribedArms Synthetic",
    },
    "oracle": {
        "oracles": "Assignment ShortestPath TopK best_arm",
    },
    None: {
        "agents.base": "BaseAgent",
        "agents.explaining": "Explanation",
        "agents.model_agent": "ModelAgent",
        "agents.warming": "warm_up",
        "checks.agents": "check_agent",
        "checks.environments": "check_environment",
        "checks.tree_learners": "check_tree_learner",
        "core": "Agent AgentExtras Candidates Columns Decision Environment EnvironmentExtras Estimate Feedback Oracle "
        "Outcome Round play_round",
        "datasets.catalogue": "CATALOGUE DataSet load",
        "datasets.labelled": "LabelledTable read_labelled",
        "evaluation.converters.frames": "from_columns to_columns",
        "evaluation.converters.open_bandit": "read_open_bandit write_open_bandit",
        "evaluation.converters.vw_json": "read_dsjson write_dsjson",
        "evaluation.converters.vw_text": "read_vw_text write_vw_text",
        "evaluation.decisions": "log_decisions warm_start",
        "evaluation.diagnostics": "LogDiagnostics WeightDiagnostics effective_sample_size",
        "evaluation.estimators": "ESTIMATORS Sample Tuning contributions",
        "evaluation.generated": "shop_log shop_value",
        "evaluation.intervals": "Interval bootstrap normal sequence time_uniform",
        "evaluation.log": "DecisionLog",
        "evaluation.off_policy": "evaluate",
        "evaluation.opening": "open_log",
        "evaluation.policies": "AgentPolicy ArmPolicy FunctionPolicy LoggingPolicy TargetPolicy UniformPolicy",
        "evaluation.replayed": "Replayed replay",
        "evaluation.results": "Estimated Evaluation PolicyValue difference_between_logs",
        "evaluation.settings": "Settings",
        "experiments.execution": "execute",
        "experiments.progress": "ProgressEvent",
        "experiments.records": "RunRecord load_plan load_records load_runs read_record write_record",
        "experiments.run": "play",
        "experiments.spec": "RunSpec Study",
        "experiments.study_file": "load_study shipped_studies",
        "features.flatten": "flattened",
        "models.model": "RewardModel",
        "policies.floor": "ScoreDraws",
        "policies.policy": "Greedy Policy",
        "policies.thompson": "Thompson",
        "policies.ucb": "UCB",
        "reports.evaluation_page": "write_evaluation_page",
        "reports.evaluation_terminal": "print_evaluation",
        "reports.explanations": "explanation_figure",
        "reports.figures": "write_figures",
        "reports.markdown": "as_markdown",
        "reports.page": "write_page",
        "reports.paper": "paper_table",
        "reports.routes": "route_maps",
        "reports.run_table": "read_run_table write_run_table",
        "reports.summary": "Results as_json read_results summarise",
        "reports.terminal": "print_table",
        "saving": "load",
        "service.client": "AsyncClient Client Decided",
        "trees.forest": "Forest TreeLearner",
        "trees.leaf_statistics": "LeafStatistics",
        "trees.regressor": "TreeEnsembleRegressor",
    },
}
#: Names of these packages are asked for there, not in `treebandit` itself.
_APART = (
    "datasets",
    "environments",
    "evaluation",
    "experiments",
    "features",
    "models",
    "policies",
    "reports",
)
#: The extra that brings the libraries that modules of a package import.
_EXTRAS = {
    "environments": "evaluation",
    "evaluation": "evaluation",
    "experiments": "experiments",
    "reports": "experiments",
}

Exports = tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]
#: Classes of one's own: by themselves, or by the name that a description has for them.
Classes = Iterable[type] | Mapping[str, Callable[..., Any]]


def public_names(package: str = _PACKAGE) -> dict[str, str]:
    """The public names of a package, and the module that each is defined in."""
    inside = package.removeprefix(_PACKAGE).removeprefix(".")
    found = {}
    for modules in _PUBLIC.values():
        for module, names in modules.items():
            top = module.partition(".")[0]
            if top == inside or (not inside and top not in _APART):
                found.update(dict.fromkeys(names.split(), f"{_PACKAGE}.{module}"))
    return dict(sorted(found.items()))


def exports(package: str) -> Exports:
    """A package's `__all__`, `__getattr__` and `__dir__` (PEP 562): a name loads its module when first asked for."""
    homes = public_names(package)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = _loaded(homes[name], name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*homes, *vars(sys.modules[package])})

    return list(homes), get, names


def _loaded(home: str, name: str) -> Any:
    """A public name from the module that defines it; a MissingExtraError where a library of that is missing."""
    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        library, extra = str(error.name).partition(".")[0], _EXTRAS.get(home.split(".")[1])
        if extra is None or library == _PACKAGE:
            raise
        raise MissingExtraError(library, extra) from error


def registered(kind: Kind) -> dict[str, str]:
    """What descriptions may name of this kind: name -> module."""
    return {name: f"{_PACKAGE}.{module}" for module, names in _PUBLIC[kind].items() for name in names.split()}


def class_name(kind: Any) -> str:
    """What a description calls a class or function: its registered name, or "module:Class"."""
    for each in KINDS:
        if registered(each).get(kind.__qualname__) == kind.__module__:
            return str(kind.__qualname__)
    return f"{kind.__module__}:{kind.__qualname__}"


def find(
    name: Any, *, classes: Classes = (), kinds: Iterable[Kind] = KINDS, where: str = "description"
) -> Callable[..., Any]:
    """The class that a description names: one of `classes`, or a registered one of these kinds."""
    own = _by_name(classes)
    if isinstance(name, str):
        homes = {each: home for kind in kinds for each, home in registered(kind).items()}
        if name in homes:
            found: Callable[..., Any] = _loaded(homes[name], name)
            return found
        # A script that has become a module since, or the other way round, still knows the class by its last name.
        alike = {given for other, given in own.items() if ":" in name and _last(other) == _last(name)}
        if name in own or len(alike) == 1:
            return own.get(name) or alike.pop()
        if ":" in name:
            raise DescriptionError(
                f"{where}: {_short(name)} is no class of treebandit; if you trust it, import it and hand it over: "
                f"classes=[{_last(name)[:40]}]"
            )
        known = ", ".join(sorted([*homes, *own]))
        raise DescriptionError(
            f"{where}: no class {_short(name)}; {nearest(name, [*homes, *own])}give one of your own as "
            f'"package.module:Class", or one of {known}'
        )
    raise DescriptionError(f'{where}: class is {_short(name)}; give a name such as "TEUCB"')


def describe(thing: Any) -> Any:
    """The plain description of an object (a dataclass or a registered function), or of values that hold some."""
    try:
        return _described(thing, type(thing).__name__)
    except RecursionError as error:
        raise DescriptionError(f"{type(thing).__name__} holds itself; give it parts of their own") from error


def build(
    description: Any,
    *,
    classes: Classes = (),
    kinds: Iterable[Kind] = KINDS,
    where: str = "description",
    dry: bool = False,
) -> Any:
    """The object that a description describes.

    classes: classes of one's own that it may name; by default only registered ones. kinds: which of those.
    where: what the description is, for messages. dry: check names and arguments, and call no constructor.
    """
    rules = _Rules(_by_name(classes), tuple(kinds), dry)
    try:
        return _built(description, where, rules)
    except RecursionError as error:
        raise DescriptionError(f"{where}: too many objects in one another") from error


def classes_in(thing: Any) -> list[type]:
    """The classes of an object and of all objects in its arguments, in the order of its description."""
    if _is_object(thing):
        return [type(thing), *(kind for field in _arguments(thing) for kind in classes_in(field[1]))]
    parts = thing.values() if isinstance(thing, Mapping) else thing if isinstance(thing, list | tuple) else ()
    return [kind for part in parts for kind in classes_in(part)]


def _described(thing: Any, where: str) -> Any:
    if _is_object(thing):
        inner = {name: _described(value, f"{where}, {name}") for name, value in _arguments(thing)}
        return {_CLASS: class_name(type(thing)), **inner}
    if isinstance(thing, Mapping):
        if wrong := [key for key in thing if not isinstance(key, str)]:
            raise DescriptionError(f"{where}: the key {_short(wrong[0])} is no text; use names as keys")
        return {_escaped(key): _described(value, where) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_described(value, where) for value in thing]
    if isinstance(thing, os.PathLike):
        return os.fspath(thing)
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if callable(getattr(thing, "tolist", None)):  # arrays and numbers of numpy
        return _described(thing.tolist(), where)
    if isinstance(thing, types.FunctionType) and ":" not in class_name(thing):
        return {_CLASS: class_name(thing)}
    raise DescriptionError(
        f"{where} is {_short(thing)}, neither a plain value nor a dataclass, and cannot be written down; "
        "make it a dataclass whose fields are its arguments"
    )


def _is_object(thing: Any) -> bool:
    return dataclasses.is_dataclass(thing) and not isinstance(thing, type)


def _arguments(thing: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(thing, field.name)) for field in dataclasses.fields(thing) if field.init]


def _escaped(key: str) -> str:
    """A key of somebody's mapping, in such a way that it cannot be taken for the name of a class."""
    return f"${key}" if key == _CLASS or key.startswith("$") else key


@dataclasses.dataclass(frozen=True)
class _Rules:
    classes: dict[str, Callable[..., Any]]
    kinds: tuple[Kind, ...]
    dry: bool


def _built(description: Any, where: str, rules: _Rules) -> Any:
    if isinstance(description, Mapping):
        if _CLASS in description:
            return _built_object(description, where, rules)
        return {str(key).removeprefix("$"): _built(value, where, rules) for key, value in description.items()}
    if isinstance(description, list | tuple):
        return [_built(value, where, rules) for value in description]
    return description


def _built_object(description: Mapping[str, Any], where: str, rules: _Rules) -> Any:
    target = find(description[_CLASS], classes=rules.classes, kinds=rules.kinds, where=where)
    ours = ":" not in class_name(target)
    given = {key: value for key, value in description.items() if key != _CLASS}
    if ours and not isinstance(target, type) and not given:
        return target
    _check_names(target, given, where)
    arguments = {key: _built(value, f"{where}, {key}", rules) for key, value in given.items()}
    if ours:
        _check_types(target, arguments, where)
    return _NOT_BUILT if rules.dry else target(**arguments)


def _check_names(target: Callable[..., Any], given: Mapping[str, Any], where: str) -> None:
    parameters = inspect.signature(target).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    for key in given:
        if key not in parameters:
            allowed = [name for name in parameters if name != "seed"]
            raise DescriptionError(
                f"{where}: unknown key {_short(key)}; {nearest(str(key), allowed)}allowed are "
                f"{', '.join(allowed) or 'none'}"
            )
    for name, each in parameters.items():
        if each.default is each.empty and each.kind is not each.VAR_POSITIONAL and name not in given:
            raise DescriptionError(f"{where}: {name} is missing")


def _check_types(target: Any, arguments: Mapping[str, Any], where: str) -> None:
    """Raise where an argument is not what the constructor of a registered class declares."""
    from treebandit.parameters import fits, in_words  # loads numpy, which importing the package does not

    hints = get_type_hints(target if dataclasses.is_dataclass(target) else target.__init__)
    for name, value in arguments.items():
        if value is not _NOT_BUILT and not fits(value, hints.get(name, Any)):
            raise DescriptionError(f"{where}: {name} is {_short(value)}; expected {in_words(hints[name])}")


_NOT_BUILT = object()


def _by_name(classes: Classes) -> dict[str, Callable[..., Any]]:
    return dict(classes) if isinstance(classes, Mapping) else {class_name(kind): kind for kind in classes}


def _last(name: str) -> str:
    return name.rpartition(":")[2].rpartition(".")[2]
