"""An agent on disk: a zip of arrays and JSON with a format version, and no pickle."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from treebandit.errors import SavedFileError

FORMAT = "treebandit agent"
VERSION = 1
_DOCUMENT = "agent.json"
_ARRAY = "$array"
_ROOMS = ("treebandit.agents", "treebandit.trees")


def describe(thing: Any) -> Any:
    """Constructor arguments as JSON values; a nested object is {"class": its name, its arguments}."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        arguments = {f.name: describe(getattr(thing, f.name)) for f in dataclasses.fields(thing) if f.init}
        return {"class": _name(type(thing)), **arguments}
    if isinstance(thing, Mapping):
        return {str(key): describe(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [describe(value) for value in thing]
    return thing.item() if isinstance(thing, np.generic) else thing


def build(description: Any) -> Any:
    """The object that `describe` described."""
    if isinstance(description, dict):
        members = {key: build(value) for key, value in description.items() if key != "class"}
        return _class(description["class"])(**members) if "class" in description else members
    return [build(value) for value in description] if isinstance(description, list) else description


def write(path: str | os.PathLike[str], *, description: dict[str, Any], state: dict[str, Any]) -> None:
    """Write a saved agent; the file appears whole or not at all."""
    arrays: list[np.ndarray[Any, Any]] = []
    document = {"format": FORMAT, "version": VERSION, "agent": description, "state": _take_out(state, arrays)}
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(_member(_DOCUMENT), json.dumps(document))
            for number, array in enumerate(arrays):
                with archive.open(_member(f"{number}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Description and state of a saved agent."""
    try:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read(_DOCUMENT))
            if not isinstance(document, dict) or document.get("format") != FORMAT:
                raise SavedFileError(
                    f"{path} was not written by treebandit; give a file that agent.save wrote"
                )
            if document["version"] > VERSION:
                raise SavedFileError(
                    f"{path} has format version {document['version']}, this treebandit reads up to {VERSION}; "
                    "install a newer treebandit"
                )
            return document["agent"], _put_back(document["state"], archive)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, zlib.error, TypeError) as error:
        raise SavedFileError(
            f"{path} is damaged or was not written by treebandit ({error}); give a file that agent.save wrote"
        ) from error


def _member(name: str) -> zipfile.ZipInfo:
    """A member without a date, so that equal agents give equal files."""
    member = zipfile.ZipInfo(name)
    member.compress_type = zipfile.ZIP_DEFLATED
    return member


def _take_out(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {_ARRAY: len(arrays) - 1}
    if isinstance(value, dict):
        return {key: _take_out(member, arrays) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_take_out(member, arrays) for member in value]
    return value.item() if isinstance(value, np.generic) else value


def _put_back(value: Any, archive: zipfile.ZipFile) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            content = io.BytesIO(archive.read(f"{value[_ARRAY]}.npy"))
            return np.lib.format.read_array(content, allow_pickle=False)
        return {key: _put_back(member, archive) for key, member in value.items()}
    return [_put_back(member, archive) for member in value] if isinstance(value, list) else value


def _name(kind: type) -> str:
    for room in _ROOMS:
        if kind.__module__.startswith(f"{room}.") and kind.__name__ in import_module(room).__all__:
            return kind.__name__
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str) -> Any:
    """A class of this package by its name, or one of a module that the program has imported itself."""
    module, _, qualified = name.rpartition(":")
    if not module:
        for room in map(import_module, _ROOMS):
            if name in room.__all__:
                return getattr(room, name)
        raise SavedFileError(
            f"the file names {name!r}, which this treebandit does not have; install a newer one"
        )
    if module not in sys.modules:
        raise SavedFileError(f"the file needs {qualified} of {module}; import {module} before loading")
    return getattr(sys.modules[module], qualified)
