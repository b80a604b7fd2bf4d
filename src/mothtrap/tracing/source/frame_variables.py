"""The variables of a running frame, read without side effects.

Before Python 3.13, `frame.f_locals` of a function writes all variables into one dict that stays
with the frame. This would keep deleted values alive (batches, graphs), overwrite values that an
`exec` of the user has set, and change a dict that the user got from `locals()`. So the variables
are read one by one.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
from collections.abc import Callable
from types import CellType, CodeType, FrameType
from typing import Any

Variables = list[tuple[str, Any]]

_IS_DEBUG_BUILD = hasattr(sys, "gettotalrefcount")
"""Debug build of Python, in which objects are larger."""
_POINTER = ctypes.sizeof(ctypes.c_void_p)

# Offsets in CPython 3.11 (Include/internal/pycore_frame.h), in pointers; checked in every frame.
_FRAME_DATA, _GLOBALS, _CODE, _FRAME_OBJECT, _VARIABLES = 3, 1, 4, 5, 9


def variables(frame: FrameType) -> Variables | None:
    """Return the variables of a frame and their values; None if they cannot be read safely.

    At module level (and in an `exec` with its own dict), these are all of its names; in a function,
    its local variables, those of its closures, and globals that its code uses.
    """
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return list(frame.f_locals.items())
    found = _locals_of(frame)
    if found is not None:
        own = frame.f_globals
        for name in code.co_names:
            if name in own:
                found.append((name, own[name]))
    return found


def _asked_for(frame: FrameType) -> Variables:
    get: Any = ctypes.pythonapi.PyFrame_GetVar
    get.restype, get.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.py_object)
    found = []
    for name in _names(frame.f_code):
        try:
            found.append((name, get(frame, name)))
        except NameError:  # not yet bound, or no longer bound
            continue
    return found


def _where_they_lie(frame: FrameType) -> Variables | None:
    code = frame.f_code
    if _IS_DEBUG_BUILD:
        return None
    data = ctypes.c_void_p.from_address(id(frame) + _FRAME_DATA * _POINTER).value
    if not data:
        return None
    words = (ctypes.c_void_p * _VARIABLES).from_address(data)
    told = words[_GLOBALS], words[_CODE], words[_FRAME_OBJECT]
    if told != (id(frame.f_globals), id(code), id(frame)):
        return None
    names = _names(code)
    slots: Any = (ctypes.py_object * len(names)).from_address(data + _VARIABLES * _POINTER)
    found = []
    for place, name in enumerate(names):
        try:
            value = slots[place]
            found.append((name, value.cell_contents if type(value) is CellType else value))
        except ValueError:  # an empty slot, or an empty cell
            continue
    return found


@functools.lru_cache(maxsize=256)
def _names(code: CodeType) -> tuple[str, ...]:
    """Return the names of the variables of a function's frame, in the order of their slots."""
    own = (*code.co_varnames, *(n for n in code.co_cellvars if n not in code.co_varnames))
    return (*own, *code.co_freevars)


def _in_view(frame: FrameType) -> Variables:
    return list(frame.f_locals.items())  # a view, which reads and writes variables in place


def _unread(_: FrameType) -> None:
    return None


_locals_of: Callable[[FrameType], Variables | None] = _unread
if sys.implementation.name == "cpython":
    _locals_of = _where_they_lie
    if sys.version_info >= (3, 12):
        _locals_of = _in_view if sys.version_info >= (3, 13) else _asked_for
