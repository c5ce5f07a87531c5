"""Input checks: arrays, frames, dicts, labels and rewards, checked and cast once, before anything changes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Candidates, Columns, Features, Floats, Indices
from treebandit.errors import ArmsError, InputError, ShapeError, TreebanditError
from treebandit.features.arm_index import ArmLabels, check_range
from treebandit.features.candidate_checks import check_codes, check_whole, check_width, fitted
from treebandit.features.frame_encoder import FrameEncoder
from treebandit.features.frames import is_frame, is_series, refuse_table
from treebandit.features.named_rows import has_names, named_list, named_values
from treebandit.features.scaling import ColumnUnits, fits, refuse_infinite
from treebandit.features.values import LARGEST, numbers_of, shown
from treebandit.parameters import check_flag

#: How rows are given: as arrays, lists and the like; as frames, pandas series or dicts; or not at all.
Form = Literal["arrays", "named columns", "no contexts"]

_ADVICE = "give numbers, or a frame or dicts for categories"
#: The contexts where none are given: one column of zeros, which every model can take.
_NO_CONTEXTS = Columns.numeric(1)
_TO_GIVE = {
    "arrays": "arrays, whose columns have no names; give an array with the same columns",
    "named columns": "named columns; give a frame or dicts, so that no column is taken for another",
    "no contexts": "no contexts; give None",
}


class Inputs:
    """Turns what a person gives into Candidates, and remembers what was given first. Replaced, never changed.

    `enter` is for rows to choose from, `enter_to_learn` for rows with rewards. Both also give the Inputs to use from
    then on, to be taken up once the decision is made or the rows are learned, and dropped otherwise.

    declared: the columns that the agent's argument `columns` declares; rows have named columns then.
    new_columns: rows with named columns may bring further ones, and lack some; see FrameEncoder.
    columns, form, encoder, units: of the rows learned; None before.
    with_arms: whether rows have arms; None before the first rows are offered or learned.
    labels: the arms offered and learned. labels_complete: False once Candidates came, whose arms are not among them.
    decided: whether rows were offered yet.
    """

    __slots__ = (
        *("columns", "form", "encoder", "units", "new_columns"),
        *("with_arms", "labels", "labels_complete", "decided"),
    )

    def __init__(self, declared: Mapping[str, Any] | None = None, *, new_columns: bool = False) -> None:
        check_flag("new_columns", new_columns)
        self.columns: Columns | None = None
        self.form: Form | None = None
        self.encoder: FrameEncoder | None = None
        self.new_columns = new_columns
        if declared is not None:
            self.encoder = FrameEncoder.declared(declared, new_columns=new_columns)
            self.columns, self.form = self.encoder.columns, "named columns"
        self.units: ColumnUnits | None = None
        self.with_arms: bool | None = None
        self.labels = ArmLabels()
        self.labels_complete = True
        self.decided = False

    def enter(self, contexts: Any, arms: Any = None) -> tuple[Candidates, Inputs]:
        """Rows to choose from, and the Inputs to use once they were offered: `self` where nothing is new.

        Names of arms that are new get codes in the order in which they are given.
        """
        if isinstance(contexts, Candidates):
            candidates, labels, complete = self._checked(contexts, arms), self.labels, contexts.arms is None
        else:
            candidates, after = self._entered(contexts, arms)
            labels, complete = after["labels"], True
        if not len(candidates.contexts):
            raise ShapeError("no candidates; give at least one row")
        complete = complete and self.labels_complete
        if self.decided and labels is self.labels and complete == self.labels_complete:
            return candidates, self
        with_arms = candidates.arms is not None
        after = {"with_arms": with_arms, "decided": True, "labels": labels, "labels_complete": complete}
        return candidates, self._with(after)

    def enter_many(self, contexts: Any, arms: Any) -> tuple[list[Candidates], Inputs]:
        """For each row the candidates of one decision, the row with each of the arms; and the Inputs after them."""
        if isinstance(contexts, Candidates):
            raise InputError("Candidates are those of one decision; use decide, or give one row per decision")
        if contexts is None or arms is None:
            missing = "contexts" if contexts is None else "arms"
            raise InputError(
                f"no {missing}; give one row per decision, and the `arms` to choose from in each"
            )
        try:
            codes, labels = self._codes(arms)
            assert codes is not None
            given = self._many_rows(contexts)
            if not len(given):
                return [], self
            rows, after = self._rows(given, None)
        except (TreebanditError, MemoryError):
            raise
        except Exception as error:
            raise _unreadable(error, contexts=contexts, arms=arms) from error
        if not len(codes):
            raise ShapeError("no arms; give at least one")
        each = [Candidates(np.repeat(row[None], len(codes), axis=0), codes, after["columns"]) for row in rows]
        return each, self._with({"with_arms": True, "decided": True, "labels": labels})

    def enter_to_learn(
        self, contexts: Any, rewards: Any, arms: Any = None, *, new_arms: bool = False
    ) -> tuple[Candidates, Floats, Inputs]:
        """Chosen rows, their rewards, and the Inputs to use once they were learned.

        new_arms: after a decision too, take labels that were neither offered nor learned before.
        """
        if isinstance(contexts, Candidates):
            chosen = self._checked(contexts, arms, learning=True)
            after: dict[str, Any] = {"columns": chosen.columns, "with_arms": chosen.arms is not None}
            after["labels_complete"] = self.labels_complete and chosen.arms is None
            if self.units is None or len(self.units.offset) < len(chosen.columns.categories):
                after["units"] = ColumnUnits.plain(chosen.columns)
        else:
            chosen, after = self._entered(contexts, arms, learning=True, new_arms=new_arms)
        values = self._rewards(rewards)
        if len(chosen.contexts) != len(values):
            raise ShapeError(f"{len(values)} rewards for {len(chosen)} chosen rows; send one reward per row")
        return chosen, values, self._with(after) if len(values) else self

    def _with(self, members: dict[str, Any]) -> Inputs:
        """These Inputs with other members; `self` where all of them are the same."""
        for name in members:
            if getattr(self, name) is not members[name]:
                break
        else:
            return self
        after = copy(self)
        for name, value in members.items():
            setattr(after, name, value)
        return after

    def _entered(
        self, contexts: Any, arms: Any, *, learning: bool = False, new_arms: bool = False
    ) -> tuple[Candidates, dict[str, Any]]:
        """Rows that are no Candidates yet, and the members of the Inputs that have learned them."""
        try:
            codes, labels = self._codes(arms, learning=learning, new_arms=new_arms)
            features, after = self._rows(contexts, codes, learning=learning)
        except (TreebanditError, MemoryError):
            raise
        except Exception as error:
            raise _unreadable(error, contexts=contexts, arms=arms) from error
        after["labels"], after["with_arms"] = labels, codes is not None
        return Candidates(features, codes, after["columns"]), after

    def _codes(
        self, arms: Any, *, learning: bool = False, new_arms: bool = False
    ) -> tuple[Indices | None, ArmLabels]:
        """Codes of the labels, and all labels; None where rows have no arms."""
        if self.with_arms is not None and self.with_arms != (arms is not None):
            raise _arms_expected(self.with_arms)
        if arms is None:
            return None, self.labels
        codes, labels = self.labels.encode(arms, scalar=learning)
        if labels.named and not self.labels and self.with_arms:
            raise ArmsError("arms have names, but this agent was given Candidates with numbers; use those")
        known = self.labels is labels or not (learning and self.decided and self.labels_complete)
        if not known and not new_arms:
            label = next(label for label in labels.state() if label not in self.labels)
            raise ArmsError(
                f"arm {shown(label)} was neither offered nor learned before; give the label of the arm that was "
                "played, not the row number that `choose` returns, or new_arms=True for an arm that is new"
            )
        return codes, labels

    def _rows(
        self, contexts: Any, codes: Indices | None, *, learning: bool = False
    ) -> tuple[Features, dict[str, Any]]:
        """Rows as 32-bit features, one row for all arms; and the members of the Inputs that have learned them."""
        form, values, encoder, columns = self._read(contexts, codes)
        if values.ndim == 1 and not learning and codes is None and values.size:
            raise ShapeError(
                f"one row of {values.size} features and no arms; give `arms` to choose from, or one row per candidate"
            )
        if values.ndim == 1:
            values = values[None] if values.size else np.empty((0, len(self.columns or _NO_CONTEXTS)))
        if values.ndim != 2:
            raise ShapeError(f"contexts of shape {values.shape}; expected one row of features per candidate")
        if not values.shape[1]:
            raise ShapeError(
                "rows of 0 features; where there are no contexts, give None as contexts, and `arms`"
            )
        if columns is None or (self.columns is not None and not learning):
            columns = self.columns or Columns.numeric(values.shape[1])
            if encoder is not None and values.shape[1] > len(columns):
                # No model knows more columns yet; what could not be learned later is refused now.
                with np.errstate(over="ignore"):
                    refuse_infinite(values.astype(np.float32), encoder.columns)
                values = values[:, : len(columns)]
        check_width(values.shape[1], columns)
        units = self.units or ColumnUnits.none(columns)
        if len(units) < len(columns):
            units = units.widened(columns)
        rows = len(values) if codes is None else len(codes)
        if rows != len(values) != 1:
            raise ShapeError(f"{rows} arms for {len(values)} rows; give one arm per row")
        shared = rows if rows != len(values) else None
        features = units.completed(values).narrow(values, columns, rows=shared)
        if learning:
            units = units.learned(values, columns)
        return features, {"columns": columns, "form": form, "encoder": encoder, "units": units}

    def named_rows(self, contexts: Any) -> Any:
        """A frame or a list of dicts, where contexts have named columns; None where they do not."""
        if isinstance(contexts, Mapping):
            return [contexts]
        if isinstance(contexts, list | tuple):
            return named_list(contexts)
        if is_frame(contexts):
            return contexts
        if has_names(contexts) or (self.form == "named columns" and is_series(contexts)):
            return [named_values(contexts)]
        refuse_table(contexts)
        return None

    def _many_rows(self, contexts: Any) -> Any:
        """Contexts of several decisions, if they are not one row alone."""
        if isinstance(contexts, Mapping) or is_series(contexts):
            raise ShapeError("one row; give a list of rows, one per decision, or use decide")
        if self.named_rows(contexts) is not None:
            return contexts
        values = numbers_of(contexts, "contexts", _ADVICE)
        if values.ndim != 2:
            raise ShapeError(f"contexts of shape {values.shape}; give one row of features per decision")
        return values

    def _read(
        self, contexts: Any, codes: Indices | None
    ) -> tuple[Form, NDArray[Any], FrameEncoder | None, Columns | None]:
        """The form, the numbers (1-d: one row), and for named columns the encoder after them, and what they are."""
        plain = type(contexts) is np.ndarray or contexts is None
        rows = None if plain else self.named_rows(contexts)
        form: Form = "no contexts" if contexts is None else "arrays" if rows is None else "named columns"
        if self.columns is not None and form != (self.form or form):
            known = f"{'learned' if self.units else 'declared'} rows with {_TO_GIVE[self.form or form]}"
            raise InputError(f"contexts are {shown(contexts)}, but this agent has {known}")
        if rows is not None:
            values, encoder = (self.encoder or FrameEncoder(new_columns=self.new_columns)).encode(rows)
            if self.encoder is None and self.columns is not None and any(encoder.columns.categories):
                raise InputError(
                    "this agent has learned Candidates, whose categories have codes and no names; give Candidates"
                )
            one_row = isinstance(rows, list) and not isinstance(contexts, list | tuple)
            return form, values[0] if one_row else values, encoder, encoder.columns
        if contexts is not None:
            return form, numbers_of(contexts, "contexts", _ADVICE), None, None
        if codes is None:
            raise InputError("neither contexts nor arms; give rows of features, or `arms` to choose from")
        return form, np.zeros((len(codes), 1)), None, _NO_CONTEXTS

    def _checked(self, candidates: Candidates, arms: Any, *, learning: bool = False) -> Candidates:
        """Candidates that are whole in themselves and fit what was learned before."""
        if arms is not None:
            raise ArmsError("Candidates come with arms of their own; leave `arms` out")
        check_whole(candidates)
        codes = candidates.arms
        if self.with_arms is not None and self.with_arms != (codes is not None):
            raise _arms_expected(self.with_arms)
        if self.columns is not None and candidates.columns is not self.columns:
            # Columns that an encoder gave have names, which columns of Candidates need not have.
            wider = self.new_columns and self.encoder is None and self.form is None
            candidates = fitted(candidates, self.columns, narrower=self.new_columns, wider=wider)
        if learning:
            refuse_infinite(candidates.contexts, candidates.columns)
            check_codes(candidates.contexts, candidates.columns)
            if codes is not None:
                check_range(codes)
        return candidates

    @staticmethod
    def _rewards(rewards: Any) -> Floats:
        """Rewards as (n,) float64."""
        try:
            given = numbers_of(rewards, "rewards", "give one number per row")
        except (TreebanditError, MemoryError):
            raise
        except Exception as error:
            raise _unreadable(error, rewards=rewards) from error
        values = np.array(given, np.float64, ndmin=1)
        if values.ndim != 1:
            raise ShapeError(f"rewards of shape {values.shape}; give one number per chosen row")
        if not fits(values):
            wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
            if len(wrong):
                reward = values[wrong[0]]
                wanted = (
                    f"a number from -{LARGEST:.2g} to {LARGEST:.2g}"
                    if np.isfinite(reward)
                    else "a finite number"
                )
                raise InputError(f"the reward of row {wrong[0]} is {reward}; give {wanted}")
        return values

    def state(self) -> dict[str, Any]:
        """All of it as JSON values and arrays."""
        return {
            "columns": None
            if self.columns is None
            else [list(self.columns.categories), list(self.columns.names)],
            "form": self.form,
            "encoder": None if self.encoder is None else self.encoder.state(),
            "units": None if self.units is None else self.units.state(),
            "with_arms": self.with_arms,
            "labels": self.labels.state(),
            "labels_complete": self.labels_complete,
            "decided": self.decided,
        }

    @classmethod
    def restored(
        cls,
        state: dict[str, Any],
        declared: Mapping[str, Any] | None = None,
        *,
        new_columns: bool = False,
    ) -> Inputs:
        """The Inputs that `state` described, of an agent with these arguments."""
        inputs = cls(new_columns=new_columns)
        if schema.value(state, "columns") is not None:
            if len(pair := schema.items(state, "columns")) != 2:
                raise schema.refused("columns", pair, "two lists")
            inputs.columns = schema.columns(pair[1], pair[0])
        width = 0 if inputs.columns is None else len(inputs.columns)
        inputs.form, inputs.with_arms = schema.value(state, "form"), None
        if inputs.form not in (None, *_TO_GIVE):
            raise schema.refused("form", inputs.form, "arrays, named columns or no contexts")
        if schema.value(state, "with_arms") is not None:
            inputs.with_arms = schema.flag(state, "with_arms")
        inputs.labels = ArmLabels.restored(schema.items(state, "labels"))
        inputs.labels_complete = schema.flag(state, "labels_complete")
        inputs.decided = schema.flag(state, "decided")
        if schema.value(state, "encoder") is not None:
            saved = schema.part(state, "encoder")
            inputs.encoder = FrameEncoder.restored(saved, new_columns=new_columns)
            if len(inputs.encoder.columns) != width:
                raise schema.refused("encoder", saved, f"{width} columns")
        if declared is not None and not (inputs.encoder and inputs.encoder.begins_with(declared)):
            raise schema.refused("encoder", state["encoder"], "the columns that the agent declares")
        if (units := schema.optional(state, "units")) is not None:
            inputs.units = ColumnUnits.restored(units, width)
        return inputs


def _arms_expected(with_arms: bool) -> ArmsError:
    return ArmsError(
        "this agent has been given rows with arms; give `arms`, one label per row"
        if with_arms
        else "this agent has been given rows without arms; leave `arms` out, or start a new agent with them"
    )


def _unreadable(error: Exception, **given: Any) -> InputError:
    kinds = " and ".join(f"{name} of type {type(value).__name__}" for name, value in given.items())
    return InputError(f"{kinds} cannot be read ({shown(error)}); {_ADVICE}, labels and rewards in lists")
