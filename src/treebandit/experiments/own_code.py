"""Modules beside study files: each study is played with its own, and as they were when it was loaded."""

from __future__ import annotations

import ast
import hashlib
import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from weakref import WeakKeyDictionary


@dataclass
class _Places:
    """Folders that are on `sys.path` for a study: before all others, behind them, and those that ever were."""

    front: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)


def use_folders(front: Sequence[str], back: Sequence[str] | None = None) -> None:
    """Look for modules in a study's folders first, and in no folder of another study.

    front: absolute paths, put before what `sys.path` has besides in the place of those of another study; none leaves
    all as it is. back: put behind, likewise; None leaves them as they are.
    Modules that would now come from another file are forgotten, so that they are imported anew.
    """
    if not front and back is None:
        return
    places = _places()
    left = list(sys.path)
    for folder in (*places.front, *(() if back is None else places.back)):
        if folder in left:
            left.remove(folder)
    places.front = list(front)
    if back is not None:
        places.back = [folder for folder in dict.fromkeys(back) if folder not in (*front, *left)]
        left += places.back
    sys.path[:] = [*front, *left]
    places.known.update(places.front, places.back)
    if any(_is_elsewhere(name, module) for name, module in _own_modules().items()):
        forget_modules()


def forget_changed(wanted: Mapping[str, str] | None = None) -> None:
    """Forget the modules beside studies if one of them is other code than is wanted, by default than its file."""
    if other_code(wanted or {}):
        forget_modules()


def forget_modules() -> None:
    """Forget all modules beside studies, as each may have parts of another; the next import reads their files."""
    for name in _own_modules():
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def own_digests(named: Iterable[str] = ()) -> dict[str, str]:
    """Hashes of the modules beside studies, and of those named, as they were when loaded."""
    modules = {name: sys.modules[name] for name in named if name in sys.modules} | _own_modules()
    found = {name: loaded_digest(module) for name, module in modules.items()}
    return {name: hashed for name, hashed in found.items() if hashed}


def with_imported(names: Iterable[str]) -> set[str]:
    """These modules, and all beside studies that they import, themselves or by others."""
    own, found, left = _own_modules(), set[str](), list(names)
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += [each for each in _imports(own[name]) if each in own] if name in own else []
    return found


def other_code(wanted: Mapping[str, str]) -> list[str]:
    """The loaded modules that have another hash than the one wanted; without one, than their file."""
    found = own_digests(wanted)
    own = {name: file_digest(_file(module)) for name, module in _own_modules().items()}
    return sorted(name for name, hashed in found.items() if hashed != {**own, **wanted}[name])


def loaded_digest(module: ModuleType) -> str | None:
    """The hash of a module as this process plays it: an edit after it was loaded changes the file alone."""
    digests = _digests()
    if module not in digests:
        digests[module] = file_digest(_file(module))
    return digests[module]


def file_digest(file: str | Path | None) -> str | None:
    """A short hash of a file's content; None where it cannot be read."""
    try:
        return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]
    except OSError:
        return None


def find_source(module: str, folders: list[str]) -> Path | None:
    """The file of a module in these folders, found without importing its packages."""
    names, search, spec = module.split("."), folders, None
    for depth in range(1, len(names) + 1):
        try:
            spec = PathFinder.find_spec(".".join(names[:depth]), search)
        except ValueError:  # a name that no module can have
            return None
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or ())
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _own_modules() -> dict[str, ModuleType]:
    """The modules that were loaded from files beside a study, of this or an earlier one."""
    loaded = {name: module for name, module in list(sys.modules.items()) if isinstance(module, ModuleType)}
    return {
        name: module
        for name, module in loaded.items()
        if name.partition(".")[0] != "treebandit" and _is_beside(name, module)
    }


def _is_beside(name: str, module: ModuleType) -> bool:
    """Whether a module's name leads to its file from the folder of a study; what is installed in there is not."""
    file, path = _file(module), name.replace(".", os.sep)
    for folder in _places().known:
        place = f"{folder}{os.sep}{path}"
        if file in (f"{place}.py", f"{place}{os.sep}__init__.py"):
            return True
        if file is None and place in list(module.__dict__.get("__path__") or ()):
            return True
    return False


def _is_elsewhere(name: str, module: ModuleType) -> bool:
    source = find_source(name, sys.path)
    return (None if source is None else str(source)) != _file(module)


def _imports(module: ModuleType) -> list[str]:
    """What the file of a module imports by name; of `from a import b` both a and a.b, which may be a module."""
    found, file = list[str](), _file(module)
    with suppress(ImportError, OSError, SyntaxError, ValueError):  # it may have changed since it was loaded
        for node in ast.walk(ast.parse(Path(file).read_bytes() if file is not None else "")):
            if isinstance(node, ast.Import):
                found += [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                home = resolve_name("." * node.level + (node.module or ""), module.__package__)
                found += [home, *(f"{home}.{each.name}" for each in node.names)]
    return found


def _file(module: ModuleType) -> str | None:
    file = module.__dict__.get("__file__")
    return file if isinstance(file, str) else None


@cache
def _places() -> _Places:
    return _Places()


@cache
def _digests() -> WeakKeyDictionary[ModuleType, str | None]:
    return WeakKeyDictionary()
