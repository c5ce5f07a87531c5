"""Where a run comes from: versions, machine, and the code that made it."""

from __future__ import annotations

import inspect
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from typing import Any

from treebandit.experiments.own_code import file_digest, find_source, loaded_digest, with_imported

PACKAGES = (
    *("numpy", "numba", "scipy", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm", "torch", "polars"),
)
_FOREIGN = {*sys.stdlib_module_names, "numpy", "pandas", "polars"}


def describe_code(*things: object) -> dict[str, Any]:
    """Version of this package, and a hash of each module that wrote a class of these objects or of their parts.

    Of modules beside a study also those that they import there.
    """
    classes = [parent for thing in things for part in _parts(thing, set()) for parent in type(part).__mro__]
    modules = sorted(with_imported({kind.__module__ for kind in classes} - {"__main__"}))
    loaded = {name: sys.modules.get(name) for name in modules if not _is_foreign(name)}
    hashes = {name: loaded_digest(module) for name, module in loaded.items() if module is not None}
    return {
        "treebandit": _version("treebandit"),
        "code": {name: hashed for name, hashed in hashes.items() if hashed},
    }


def describe_machine() -> dict[str, Any]:
    """What the run ran on, without the machine's name."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def describe_packages() -> dict[str, str]:
    """Versions of the libraries that a run may depend on."""
    return {name: version for name in PACKAGES if (version := _version(name))}


class CurrentCode:
    """The code as it is now, to hold against that which made a run. Nothing is imported.

    folders: of studies; modules are looked for in them first.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = list(folders)
        self._hashes: dict[str, str | None] = {}

    def stale_reason(self, provenance: dict[str, Any]) -> str:
        """What other code made a run: `treebandit 0.1.0`, `my_agents has changed`; nothing where none is known."""
        version, code = provenance.get("treebandit"), provenance.get("code")
        if isinstance(version, str) and version != (_version("treebandit") or version):
            return f"treebandit {version}"
        then = code if isinstance(code, dict) else {}
        changed = [name for name, hashed in then.items() if self._hash(name) not in (None, hashed)]
        return f"{', '.join(changed)} {'has' if len(changed) == 1 else 'have'} changed" if changed else ""

    def _hash(self, module: str) -> str | None:
        if module not in self._hashes:
            self._hashes[module] = file_digest(find_source(module, [*self._folders, *sys.path]))
        return self._hashes[module]


def _parts(thing: object, seen: set[int]) -> Iterator[object]:
    """An object, and those that it was constructed with."""
    if id(thing) in seen or _is_foreign(type(thing).__module__):
        return
    seen.add(id(thing))
    yield thing
    try:
        names = list(inspect.signature(type(thing)).parameters)
    except (TypeError, ValueError):
        return
    for name in names:
        value = getattr(thing, name, None)
        for item in value if isinstance(value, list | tuple) else (value,):
            yield from _parts(item, seen)


def _is_foreign(module: str) -> bool:
    return module.partition(".")[0] in _FOREIGN


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
