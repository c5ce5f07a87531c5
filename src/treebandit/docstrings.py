"""Docstrings of subclasses explain inherited arguments, too, so that `help` has all of them in one place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_ARGUMENT = re.compile(r"(?:^|(?<=[.;:)]) )((?:\w+, )*\w+): (?=\S)")


def described(docstring: str | None) -> Iterator[tuple[set[str], str]]:
    """The arguments that a docstring explains: names, and the lines `name: what it is` with what is indented below."""
    names: set[str] = set()
    lines: list[str] = []
    for line in [*inspect.cleandoc(docstring or "").splitlines(), ""]:
        if lines and line.startswith(" "):
            lines.append(line)
            continue
        if lines:
            yield names, "\n".join(lines)
        found = _ARGUMENT.match(line)
        names = (
            {name for each in _ARGUMENT.finditer(line) for name in each[1].split(", ")} if found else set()
        )
        lines = [line] if found else []


def inherit_arguments(kind: type) -> None:
    """Add to a class's docstring what its bases say of fields that it does not explain itself, before the example."""
    own = vars(kind).get("__doc__")
    if not own:
        return
    text = inspect.cleandoc(own)
    known = set().union(*(names for names, _ in described(text)))
    fields = {name for base in kind.__mro__ for name in inspect.get_annotations(base)}
    added = []
    for base in kind.__mro__[1:-1]:
        for names, lines in described(vars(base).get("__doc__")):
            if names & fields and not names <= known:
                added.append(lines)
                known |= names
    if added:
        said, example, shown = text.partition("\n\n>>> ")
        last = said.rpartition("\n")[2]
        gap = "\n" if _ARGUMENT.match(last) or (last.startswith(" ") and ">>>" not in last) else "\n\n"
        kind.__doc__ = said + gap + "\n".join(added) + example + shown
