"""Our docstrings for Sphinx: lines `name: what it is` become fields, indented lines stay as they are."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from treebandit.registry import public_names

#: Between the names of one field: Sphinx would take what stands before a space for the type of the last name.
NO_SPACE = "\N{ZERO WIDTH SPACE}"
ARGUMENT = re.compile(r"^(\w+(?:, \w+)*): (?=\S)")


def parameters_of(thing: Any) -> set[str]:
    """Names of the arguments of a function or class, and of the fields of a dataclass."""
    names: set[str] = set()
    with contextlib.suppress(TypeError, ValueError):
        names |= set(inspect.signature(thing).parameters)
    if dataclasses.is_dataclass(thing):
        names |= {field.name for field in dataclasses.fields(thing)}
    return names - {"self"}


def split_arguments(lines: list[str], known: set[str]) -> list[str]:
    """`rows: the rows. rewards: one each.` on one line -> a line for each, where both are arguments."""
    divided = []
    for line in lines:
        start = ARGUMENT.match(line)
        if not (start and start[1].split(", ")[0] in known):
            divided.append(line)
            continue
        rest = line
        for found in re.finditer(r"(?<=[.;:)]) (\w+(?:, \w+)*): (?=\S)", line):
            if set(found[1].split(", ")) <= known:
                head, rest = rest.split(f" {found[0].strip()}", 1)
                divided.append(head)
                rest = f"{found[0].strip()}{rest}"
        divided.append(rest)
    return divided


def rewritten(lines: list[str], known: set[str]) -> list[str]:
    """The docstring as reStructuredText."""
    lines = split_arguments(lines, known)
    result: list[str] = []
    in_fields = in_block = False
    for line in lines:
        found = ARGUMENT.match(line)
        if found and (set(found[1].split(", ")) & known) and not in_block:
            if not in_fields and result and result[-1]:
                result.append("")
            names = found[1].replace(", ", f",{NO_SPACE}")
            result.append(f":param {names}: {line[found.end() :]}")
            in_fields = True
            continue
        if in_fields and line and not line.startswith(" "):
            result.append("   " + line)
            continue
        if not line:
            in_fields = False
        indented = line.startswith("    ") and not in_fields
        if indented and not in_block and result and not result[-1]:
            result += [".. code-block:: text", ""]
            in_block = True
        elif line and not line.startswith(" "):
            in_block = False
        result.append(line)
    return result


def comment_above(name: str) -> list[str]:
    """The comment `#: ...` above a constant, where it is defined; without one, its type would explain itself."""
    package, _, constant = name.rpartition(".")
    home = public_names(package).get(constant, package)
    return ModuleAnalyzer.for_module(home).find_attr_docs().get(("", constant), [])


def process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """The hook of autodoc."""
    if what == "data":
        lines[:] = comment_above(name)
        return
    if any(line.lstrip().startswith(".. ") for line in lines):
        return
    lines[:] = rewritten(lines, parameters_of(thing))


def readable(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Defaults that are no Python, such as `<factory>`, as `...`: Sphinx would part the signature at every comma."""
    if signature is not None:
        signature = re.sub(
            r"<(?:function (\w+)|[^<>]+?)(?: at 0x\w+)?>", lambda found: found[1] or "...", signature
        )
    return signature, returns


def skip(app: Sphinx, what: str, name: str, member: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what a class has from other packages, such as the metadata routing of scikit-learn."""
    home = getattr(inspect.unwrap(member), "__module__", None) if callable(member) else None
    return True if (home or "treebandit").partition(".")[0] not in ("treebandit", "builtins") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Join autodoc."""
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", readable)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True}
