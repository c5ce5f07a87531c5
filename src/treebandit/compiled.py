"""`njit` for all kernels of the package: compiled code is kept on disk, and where that cannot be, in memory.

numba's own cache fails at import where neither the package nor the home folder can be written, as in many containers;
and it does not read what it cannot write. Here compiled code is read from every folder that has some, and saved into
the first that can be written.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from numba.core import caching


def njit(*, cache: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit`, with compiled code kept from one process to the next."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(no_cfunc_wrapper=True, **options)(function)
        if cache and hasattr(dispatcher, "enable_caching"):  # not where NUMBA_DISABLE_JIT is set
            dispatcher._cache = _Folders(function)
        return dispatcher

    return compiled


def part(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`njit` for a function that only other kernels call: it is compiled into each of them, and not kept by itself.

    Without the wrappers that Python would need, it compiles in half the time.
    """
    return njit(cache=False, no_cpython_wrapper=True, **options)


class _File(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Compiled code of one function: an index of signatures, and one file each.

    Files are named after their signature. numba counts them, so that two processes that compile two signatures at the
    same time may give both the same name, and one would later run the code of the other.
    """

    def save(self, key: Any, data: Any) -> None:
        number = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6], "big")
        self._save_data(self._data_name(number), data)
        self._save_index({**self._load_index(), key: self._data_name(number)})

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # damaged: start anew
            return {}


class _Folders:
    """All folders with compiled code of one function; used in place of numba's `FunctionCache`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        places = tuple(caching.CompileResultCacheImpl._locator_classes)
        self._writable = _cache(function, places)
        readable = [_cache(function, (_only_read(each),)) for each in places]
        found = {each.cache_path: each for each in (*readable[::-1], self._writable) if each is not None}
        self._all = list(found.values())[::-1]

    @property
    def cache_path(self) -> str:
        return "" if self._writable is None else str(self._writable.cache_path)

    def load_overload(self, signature: Any, context: Any) -> Any:
        for each in self._all:
            try:
                found = each.load_overload(signature, context)
            except Exception:  # damaged or of another version: compile anew
                continue
            if found is not None:
                return found
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        try:
            if self._writable is not None:
                self._writable.save_overload(signature, result)
                return
        except OSError:  # the disk is full, or the folder is gone
            pass
        _say_that_nothing_is_kept()

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None:
        if self._writable is not None:
            self._writable.flush()


def _cache(function: Callable[..., Any], places: tuple[Any, ...]) -> Any:
    """numba's cache of a function in the first of these places; None where there is none."""
    try:
        made = _cache_in(places)(function)
    except RuntimeError:  # "no locator available"
        return None
    file = made._cache_file
    made._cache_file = _File(file._cache_path, made._impl.filename_base, file._source_stamp)
    return made


@cache
def _cache_in(places: tuple[Any, ...]) -> Any:
    details = type("_Details", (caching.CompileResultCacheImpl,), {"_locator_classes": list(places)})
    return type("_Cache", (caching.FunctionCache,), {"_impl_class": details})


@cache
def _only_read(locator: Any) -> Any:
    """A place that is taken if it is there, whether or not it can be written."""

    def ensure_cache_path(self: Any) -> None:
        if not os.path.isdir(self.get_cache_path()):
            raise OSError("no such folder")

    return type(f"_ReadOnly{locator.__name__}", (locator,), {"ensure_cache_path": ensure_cache_path})


@cache
def _say_that_nothing_is_kept() -> None:
    warnings.warn(
        "treebandit compiles its kernels anew in every process, up to half a minute each time, because no folder for "
        "compiled code can be written; set NUMBA_CACHE_DIR to one that can, or run `treebandit warm-up` once where the "
        "package can be written, as when an image is built",
        stacklevel=2,
    )
