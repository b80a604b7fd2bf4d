"""The variables of a running frame, read without leaving a trace.

Before Python 3.13, `frame.f_locals` of a function writes all its variables into one dict that
stays with the frame: it would keep what they name alive after they are gone (batches, graphs),
overwrite what an `exec` of the user has put there, and change a dict that `locals()` gave the
user before. So they are read one by one where they lie.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator
from types import CellType, CodeType, FrameType
from typing import Any

_IS_DEBUG_BUILD = hasattr(sys, "gettotalrefcount")
"""Then objects are larger."""
_POINTER = ctypes.sizeof(ctypes.c_void_p)

# Of CPython 3.11 (Include/internal/pycore_frame.h), in pointers; checked in every frame.
_FRAME_DATA, _GLOBALS, _CODE, _FRAME_OBJECT, _VARIABLES = 3, 1, 4, 5, 9


def variables(frame: FrameType) -> Iterator[tuple[str, Any]] | None:
    """The variables of a frame and their values; None where they cannot be read safely.

    At module level (and in an `exec` with a dict of its own) those are all of its names; in a
    function its local variables, those of its closures, and globals that its code names.
    """
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return iter(list(frame.f_locals.items()))
    local = _locals(frame)
    return None if local is None else itertools.chain(local, _named_globals(frame))


def _named_globals(frame: FrameType) -> Iterator[tuple[str, Any]]:
    own = frame.f_globals
    return ((name, own[name]) for name in frame.f_code.co_names if name in own)


def _locals(frame: FrameType) -> Iterator[tuple[str, Any]] | None:
    if sys.implementation.name != "cpython":
        return None
    if sys.version_info >= (3, 13):  # a view, which reads and writes variables in place
        return iter(list(frame.f_locals.items()))
    if sys.version_info >= (3, 12):
        return _asked_for(frame)
    return _where_they_lie(frame)


def _asked_for(frame: FrameType) -> Iterator[tuple[str, Any]]:
    get: Any = ctypes.pythonapi.PyFrame_GetVar
    get.restype, get.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.py_object)
    for name in _names(frame.f_code):
        try:
            yield name, get(frame, name)
        except NameError:  # not bound yet, or no longer
            continue


def _where_they_lie(frame: FrameType) -> Iterator[tuple[str, Any]] | None:
    code = frame.f_code
    if _IS_DEBUG_BUILD:
        return None
    data = _word(id(frame) + _FRAME_DATA * _POINTER)
    expected = {_GLOBALS: frame.f_globals, _CODE: code, _FRAME_OBJECT: frame}
    if not data:
        return None
    if any(_word(data + place * _POINTER) != id(it) for place, it in expected.items()):
        return None
    names = _names(code)
    slots = (ctypes.py_object * len(names)).from_address(data + _VARIABLES * _POINTER)
    return _filled(names, slots)


def _filled(names: tuple[str, ...], slots: Any) -> Iterator[tuple[str, Any]]:
    found = []
    for place, name in enumerate(names):
        try:
            value = slots[place]
            found.append((name, value.cell_contents if type(value) is CellType else value))
        except ValueError:  # an empty slot, or an empty cell
            continue
    return iter(found)


def _word(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


@functools.lru_cache(maxsize=256)
def _names(code: CodeType) -> tuple[str, ...]:
    """Names of the variables of a function's frame, in the order of their slots."""
    own = (*code.co_varnames, *(n for n in code.co_cellvars if n not in code.co_varnames))
    return (*own, *code.co_freevars)
