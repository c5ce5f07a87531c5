"""Every exception of the package.

TreebanditError
├── InputError                 what was given cannot be used (also a ValueError)
│   ├── ShapeError             wrong number of rows, columns or rewards
│   ├── ArmsError              arm labels are missing, or were not wanted before
│   ├── ParameterError         a constructor argument out of range or unknown
│   ├── ChoiceError            rows that cannot be chosen, from an oracle of one's own or given to an environment
│   ├── RoundError             a choice without a round: `pull` before `observe`, or twice
│   └── DescriptionError       an object that cannot be described, or a description that names what is not known
├── NotFittedError             asked for an estimate before anything was learned
├── NoEstimateError            asked for an estimate of an agent that never has one
├── DecideOnlyError            an agent that was saved without its history is asked to learn
├── NoFeasibleChoiceError      an oracle has nothing to choose from, or no path leads to the target
├── MissingExtraError          an optional library is not installed (also an ImportError)
├── SavedFileError             a saved agent or a record is damaged, foreign or of a newer format
│   └── DamagedRecordError     a record cannot be read, or is not what was written
├── DataError                  a data file is damaged, or a column of it is missing or wrong
│   └── LogError               a decision log cannot be read, or a row of it cannot be true
│       └── MissingLogError    a real log that is not shipped is not in the folder of logs
├── EvidenceError              a log does not hold enough evidence for what was asked
├── StudyError                 a study file cannot be read, or names what does not exist
├── CheckError                 a contract of `treebandit.checks` is broken (also an AssertionError)
├── RoadsError                 a road network cannot be read or recorded
└── ServiceError               the decision service could not do what was asked
    ├── StoreError             its store cannot be reached or written, or is of another version
    └── NoAnswerError          it did not answer a client in time
"""

import collections.abc
from difflib import get_close_matches


class TreebanditError(Exception):
    """Anything this package raises on purpose."""


class InputError(TreebanditError, ValueError):
    """What was given cannot be used; the agent is as it was before."""


class ShapeError(InputError):
    """Wrong number of rows, columns or rewards."""


class ArmsError(InputError):
    """Arm labels are missing, or were not given before."""


class ParameterError(InputError):
    """A constructor argument is out of range or unknown."""


class ChoiceError(InputError):
    """Rows that cannot be chosen: no whole numbers, out of range, one of them twice, or too many or too few."""


class RoundError(InputError):
    """An environment was given a choice without a round."""


class DescriptionError(InputError):
    """An object cannot be described by plain values, or a description names a class or argument that is not known."""


class NotFittedError(TreebanditError):
    """An estimate was asked for before anything was learned."""


class NoEstimateError(TreebanditError):
    """An estimate was asked for of an agent that keeps none, however much it learns."""


class DecideOnlyError(TreebanditError):
    """An agent that was saved without its history, to decide only, is asked to learn."""


class NoFeasibleChoiceError(TreebanditError):
    """The oracle finds no feasible choice."""


class MissingExtraError(TreebanditError, ImportError):
    """An optional library is not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed; run: pip install 'treebandit[{extra}]'")
        self.library = library
        self.extra = extra

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str]]:
        return type(self), (self.library, self.extra)


class SavedFileError(TreebanditError):
    """A saved file is damaged, foreign or of a newer format."""


class DamagedRecordError(SavedFileError):
    """The record of a run cannot be read, or is not what was written; the study can play the run again."""


class DataError(TreebanditError):
    """A data file is damaged, or a column of it is missing or wrong."""


class LogError(DataError):
    """A decision log cannot be read, or a row of it cannot be true."""


class MissingLogError(LogError):
    """A real log that is not shipped is not in the folder of logs."""


class EvidenceError(TreebanditError):
    """A log does not hold enough evidence for what was asked; the message says what log would."""


class StudyError(TreebanditError):
    """A study cannot be read, or names what does not exist."""


class CheckError(TreebanditError, AssertionError):
    """A contract is broken."""


class RoadsError(TreebanditError):
    """A road network cannot be read or recorded."""


class ServiceError(TreebanditError):
    """The decision service could not do what was asked."""


class StoreError(ServiceError):
    """The store of the service cannot be reached or written, or is of another version."""


class NoAnswerError(ServiceError):
    """The service did not answer in time, or not at all."""


#: Every class above.
__all__ = sorted(name for name, value in globals().items() if isinstance(value, type))


def nearest(given: str, known: collections.abc.Iterable[str]) -> str:
    """`did you mean 'adult'? ` for a name like a known one, else nothing; for use inside a message."""
    names = {name.casefold(): name for name in known}
    found = get_close_matches(given.casefold(), names, n=1)
    return f"did you mean {names[found[0]]!r}? " if found else ""
