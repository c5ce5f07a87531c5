"""`njit` for all kernels of the package: compiled code is kept on disk, and where that cannot be, in memory.

numba's own cache fails at import where neither the package nor the home folder can be written, as in many containers;
and it does not read what it cannot write. Here compiled code is read from every folder that has some, and saved into
the first that can be written. numba also takes code for current as long as the kernel's own file is the same; here the
files of the parts that are compiled into it count, too.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import numba
from numba.core import caching, event
from numba.core.dispatcher import Dispatcher


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


#: A kernel that Python calls. Division by 0 gives inf, as in numpy: a kernel that changes arrays must not raise. It
#: allocates nothing and returns no array, but writes into what it is given: without numba's reference counts it is
#: compiled and called in less time, and a slice costs nothing. All kernels and helpers must keep to that.
kernel = njit(error_model="numpy", _nrt=False)
#: One that takes long: other threads go on meanwhile.
long_kernel = njit(error_model="numpy", _nrt=False, nogil=True)
#: A part of kernels.
helper = part(error_model="numpy", _nrt=False)
#: The same for long sums, which may be taken in any order; NaN stays NaN.
summing = part(error_model="numpy", _nrt=False, fastmath={"reassoc", "contract", "nsz"})


class _File(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Compiled code of one function: an index of signatures, and one file each.

    Files are named after their signature and source. numba counts them, so that two processes that compile two
    signatures, or two versions, at the same time may give both the same name, and one would run the code of the other.
    """

    def save(self, key: Any, data: Any) -> None:
        known = self._load_index()
        if not known and os.path.exists(self._index_path):  # of other sources, and never to be loaded again
            self._remove_data()
        named = repr((self._source_stamp, key)).encode()
        name = self._data_name(int.from_bytes(hashlib.sha256(named).digest()[:6], "big"))
        self._save_data(name, data)
        self._save_index({**known, key: name})

    def _remove_data(self) -> None:
        start = self._index_name.removesuffix("nbi")
        for name in os.listdir(self._cache_path):
            if name.startswith(start) and name.endswith(".nbc"):
                with suppress(OSError):  # another process was first
                    os.unlink(self._data_path(name))

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # damaged: start anew
            return {}


class _Folders:
    """All folders with compiled code of one function; used in place of numba's `FunctionCache`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._places = tuple(caching.CompileResultCacheImpl._locator_classes)

    # Not before the first call: by then all parts of the function are imported.
    @cached_property
    def _writable(self) -> Any:
        return _cache(self._function, self._places)

    @cached_property
    def _all(self) -> list[Any]:
        readable = [_cache(self._function, (_only_read(each),)) for each in self._places]
        found = {each.cache_path: each for each in (*readable[::-1], self._writable) if each is not None}
        return list(found.values())[::-1]

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
        _pause_collection()
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


class _PausedCollection(event.Listener):  # type: ignore[misc]
    """Pauses Python's garbage collector while a kernel of `njit` is compiled.

    A compiler makes many objects, among which garbage is looked for again and again: a tenth of its time. Looking once,
    at the end of each kernel, takes half as long. numba compiles under one lock, so there is one such kernel at a time,
    and tells of the end where it fails, too.
    """

    def __init__(self) -> None:
        self._kernel: Dispatcher | None = None

    def on_start(self, happened: event.Event) -> None:
        dispatcher = happened.data["dispatcher"]
        if isinstance(getattr(dispatcher, "_cache", None), _Folders) and gc.isenabled():
            self._kernel = dispatcher
            gc.disable()

    def on_end(self, happened: event.Event) -> None:
        if happened.data["dispatcher"] is self._kernel:  # not one that is compiled into it
            self._kernel = None
            gc.enable()


@cache
def _pause_collection() -> None:
    """From the first kernel on that must be compiled: where all are loaded, nothing is changed."""
    event.register("numba:compile", _PausedCollection())


def _cache(function: Callable[..., Any], places: tuple[Any, ...]) -> Any:
    """numba's cache of a function in the first of these places; None where there is none."""
    try:
        made = _cache_in(places)(function)
    except RuntimeError:  # "no locator available"
        return None
    file = made._cache_file
    stamp = (file._source_stamp, *(_source(each) for each in _modules(function.__module__)))
    made._cache_file = _File(file._cache_path, made._impl.filename_base, stamp)
    return made


@cache
def _modules(name: str) -> tuple[str, ...]:
    """Modules of the same package with kernels, parts and their constants that kernels of this one may use."""
    package, found, left = name.partition(".")[0], set[str](), [name]
    while left:
        module = sys.modules.get(each := left.pop())
        if each in found or each.partition(".")[0] != package or not _has_kernels(module):
            continue
        found.add(each)
        values = vars(module).values()
        left += [value.__name__ if isinstance(value, ModuleType) else str(_home(value)) for value in values]
    return tuple(sorted(found))


def _has_kernels(module: ModuleType | None) -> bool:
    return module is not None and any(isinstance(value, Dispatcher) for value in vars(module).values())


def _home(value: Any) -> Any:
    """The module that a function, kernel or class was made in."""
    return getattr(getattr(value, "py_func", value), "__module__", None)


@cache
def _source(name: str) -> str:
    """A hash of a module's source and of the options of its kernels, which may come from another module."""
    module = sys.modules[name]
    spec, kernels = module.__spec__, [each for each in vars(module).values() if isinstance(each, Dispatcher)]
    try:
        source = spec.loader.get_data(spec.origin)  # type: ignore[union-attr]
    except (AttributeError, OSError):  # made by hand, or without a file
        source = b""
    options = [
        (option, sorted(value) if isinstance(value, set) else value)
        for kernel in kernels
        for option, value in sorted(kernel.targetoptions.items())
    ]
    return hashlib.sha256(source + repr(options).encode()).hexdigest()


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
