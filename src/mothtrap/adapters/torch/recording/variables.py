"""Variables of the calling code that are inputs of a step: those that changed recently.

A replay starts the script again, which recreates everything that existed before the first step,
such as the whole dataset. So only variables that changed since the code first called a model are
recorded, and small tensors, which may be random and cost little. Frames and values are never kept
alive: tensors and arrays are tracked by weak references.
"""

from __future__ import annotations

import random
import sys
import types
from collections import UserDict
from collections.abc import Sequence
from dataclasses import is_dataclass
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch import nn

from mothtrap.adapters.torch.job.tensor_refs import ContentRef
from mothtrap.adapters.torch.recording.generators import mark_of
from mothtrap.tracing.source.dead_names import dead_names
from mothtrap.tracing.source.frame_variables import Variables, variables

SMALL_BYTES, SMALL_TOTAL = 1 << 16, 1 << 20
"""Maximum size of each unchanged tensor that is kept, and of all together."""
MAX_VALUES = 64
"""Maximum number of values in a container: longer containers are histories or data. Chosen by
hand."""
MAX_DEPTH = 4
"""Maximum depth of nested containers."""
FEW_VALUES = 8
"""A list with more values is left out if the code does not read it after the call: copying it
takes long. Other values are kept: they show how the input of a model was made. Chosen by hand.
"""
MAX_MARKS, MAX_MARKS_TOGETHER = 256, 2000
"""Maximum number of compared values in one variable, including nested containers, and in all
variables of one call: about 100 microseconds. Chosen by hand.
"""
LEFT_ALONE = 256
"""Number of calls in which a variable with more values is not inspected again."""
OWNER = "self"
"""The variable whose attributes are also inspected; attributes of a model are recorded
separately."""
MAX_CODES = 128
"""Maximum number of call sites of models that are distinguished."""
_UNNAMED_SCOPES = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>", "<lambda>")

_PLAIN = (int, float, bool, str, complex, bytes, types.NoneType, np.generic, torch.Size)
_MAPPINGS = (dict, UserDict)
_CONTAINERS = (list, tuple, set, *_MAPPINGS)
_GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
SAMPLED = 512
"""Number of compared elements of an array. Chosen by hand: about 10 microseconds."""
SAMPLED_OF_FILE = 16
"""Number of compared elements of an array in a file (`np.memmap`), which may each read a disk."""
MAX_TEXT = 1000
"""Maximum number of characters of a text."""

_NEW = object()
_CHANGED = ("changed",)
"""Mark of a container that cannot equal an earlier mark."""
_SKIPPED, _VALUE, _TENSOR, _ARRAY, _CONTAINER, _GENERATOR = range(6)


class ChangedVariables:
    """Tracks the variables of code since its first model call.

    Attributes:
        unread: variables that could not be read, in words.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[CodeType, str], dict[str, Any]] = {}
        self._kinds: dict[type, int] = {}
        self._owner: object = None
        self._marks = _Marks()
        self._alone: dict[tuple[CodeType, str], int] = {}
        self._dead: dict[tuple[CodeType, int], frozenset[str]] = {}
        self._calls = 0
        self.unread: dict[str, None] = {}

    def of(self, frame: FrameType | None) -> Variables:
        """Return the names and values of a frame's variables that have changed.

        For a method, this includes attributes of its object, such as `self.name`.

        Args:
            frame: frame that calls a model; for a comprehension, also the frame of the enclosing
                function.
        """
        self._calls += 1
        self._marks.left = MAX_MARKS_TOGETHER
        found: Variables = []
        while frame is not None:
            code = frame.f_code
            named = variables(frame)
            if named is None:
                self.unread[f"the variables of {code.co_name}"] = None
            else:
                dead = self._dead.get((code, frame.f_lasti))
                if dead is None:
                    dead = self._look_ahead(code, frame.f_lasti)
                found += self._changed(code, named, dead=dead)
                if self._owner is not None:
                    found += self._attributes(code)
            if code.co_name not in _UNNAMED_SCOPES:
                break
            outer = frame.f_back
            same_file = outer is not None and outer.f_code.co_filename == code.co_filename
            frame = outer if same_file else None
        return found

    def _look_ahead(self, code: CodeType, at: int) -> frozenset[str]:
        """Return the variables that code does not read after a call."""
        if len(self._dead) >= MAX_CODES:
            del self._dead[next(iter(self._dead))]
        dead = self._dead[code, at] = dead_names(code, at)
        return dead

    def _attributes(self, code: CodeType) -> Variables:
        """Return the attributes of the object whose method ran, if the script defines its class."""
        owner, self._owner = self._owner, None
        if type(owner).__module__ in sys.stdlib_module_names:
            return []
        named = list(getattr(owner, "__dict__", {}).items())
        return self._changed(code, named, f"{OWNER}.")

    def _changed(
        self,
        code: CodeType,
        named: Sequence[tuple[str, Any]],
        prefix: str = "",
        *,
        dead: frozenset[str] = frozenset(),
    ) -> Variables:
        seen = self._seen.get((code, prefix))
        first = seen is None
        if seen is None:
            if len(self._seen) >= MAX_CODES:
                del self._seen[next(iter(self._seen))]
            seen = self._seen[code, prefix] = {}
        kinds, small = self._kinds, 0
        found: Variables = []
        for name, value in named:
            kind = kinds.get(type(value))
            if kind is None:
                kind = kinds[type(value)] = _kind_of(type(value))
            if kind == _SKIPPED or name[:2] == "__" or name[:1] == ".":
                if kind == _SKIPPED and name == OWNER and not prefix:
                    self._owner = None if isinstance(value, nn.Module) else value
                continue
            if kind == _VALUE:
                before = seen.get(name, _NEW)
                if before is value or _is_long(value):
                    continue
                if first:
                    seen[name] = value
                elif type(before) is not type(value) or before != value:
                    found.append((prefix + name, value))
                continue
            size, mark = 0, None
            if kind == _TENSOR:
                if value.grad_fn is not None:  # determined by the values that it was computed from
                    continue
                mark = ContentRef(value), -1 if value.is_inference() else value._version
                if not value.requires_grad and value.layout is torch.strided:
                    size = int(value.nbytes)
            elif kind == _GENERATOR:
                mark = mark_of(value)
            else:
                if name in dead and isinstance(value, list | tuple) and len(value) > FEW_VALUES:
                    continue
                before = None if first else seen.get(name, _NEW)
                mark = self._mark(code, name, value, kind, before)
                size = int(value.nbytes) if kind == _ARRAY else 0
            if mark is None:
                continue
            if 0 < size <= SMALL_BYTES and small + size <= SMALL_TOTAL:
                small += size
                found.append((prefix + name, value))
            elif not first and not _is_same(seen.get(name), mark):
                found.append((prefix + name, value))
            if first:
                seen[name] = mark
        return found

    def _mark(self, code: CodeType, name: str, value: Any, kind: int, before: Any) -> Any:
        """Return a mark that differs from the one before when the value changes.

        None if the value must not be kept.
        """
        if self._alone and self._alone.get((code, name), 0) > self._calls:
            return None
        try:
            return self._marks.of(value, kind, self._kinds, before=before)
        except _TooManyError:
            if len(self._alone) >= MAX_CODES:
                del self._alone[next(iter(self._alone))]
            self._alone[code, name] = self._calls + LEFT_ALONE
            self.unread[f"the variable {name}: it is too large to compare"] = None
        except Exception:  # objects of the user may raise anything
            pass
        return None


class _TooManyError(Exception):
    """There are more values than are compared."""


class _Marks:
    """Creates marks that later identify a value.

    Attributes:
        left: values that may still be inspected.
    """

    def __init__(self) -> None:
        self.left = MAX_MARKS_TOGETHER
        self._until = 0

    def of(
        self, value: Any, kind: int, kinds: dict[type, int], depth: int = 0, before: Any = None
    ) -> Any:
        """Return the mark of a variable, or of a value in it; None if it must not be kept.

        Args:
            value: the variable, or a value in it.
            kind: kind of its type.
            kinds: kinds of all types that have been seen.
            depth: number of containers around the value.
            before: earlier mark of the variable; None at the first look. A list that has grown
                since then is not marked in full.

        Raises:
            _TooManyError: the variable has too many values.
        """
        if not depth:
            self._until = max(0, self.left - MAX_MARKS)
        self.left -= 1
        if self.left < self._until:
            raise _TooManyError
        if kind == _VALUE:
            return None if _is_long(value) else (value,)
        if kind == _TENSOR:
            if value.grad_fn is not None:  # determined by the values that it was computed from
                return None
            return ContentRef(value), -1 if value.is_inference() else value._version
        if kind == _ARRAY:
            return _mark_of_array(value)
        if kind != _CONTAINER or depth > MAX_DEPTH:
            return None
        parts = _parts(value)
        if parts is None:
            return None
        known = before is None or (type(before) is list and len(before) == 1 + len(parts))
        marks: list[Any] = [type(value)]
        for part in parts:
            kind = kinds.get(type(part), -1)
            if kind < 0:
                kind = kinds[type(part)] = _kind_of(type(part))
            marks.append(self.of(part, kind, kinds, depth + 1))
            if not known and marks[-1] is not None:
                return _CHANGED
        # For example only losses of a step, which are determined by their inputs.
        return marks if len(marks) == 1 or any(mark is not None for mark in marks[1:]) else None


def _kind_of(cls: type) -> int:
    if issubclass(cls, nn.Parameter | nn.Module):
        return _SKIPPED
    for kinds, kind in (
        (_PLAIN, _VALUE),
        ((torch.Tensor,), _TENSOR),
        ((np.ndarray,), _ARRAY),
        (_CONTAINERS, _CONTAINER),
        (_GENERATORS, _GENERATOR),
    ):
        if issubclass(cls, kinds):
            return kind
    return _CONTAINER if is_dataclass(cls) else _SKIPPED


def _is_long(value: Any) -> bool:
    return isinstance(value, str | bytes) and len(value) > MAX_TEXT


def _parts(value: Any) -> list[Any] | None:
    """Return the items of a container; None if there are too many."""
    if isinstance(value, _MAPPINGS):
        if len(value) > MAX_VALUES:
            return None
        return [part for pair in value.items() for part in pair]
    if isinstance(value, list | tuple | set):
        return list(value) if len(value) <= MAX_VALUES else None
    return [getattr(value, field, None) for field in type(value).__dataclass_fields__]


def _mark_of_array(array: Any) -> Any:
    """Return the address and some elements of an array, which has no version.

    Weak references are not used, because NumPy does not resize an array that has one.
    """
    sample = b""
    if array.size and not array.dtype.hasobject:
        flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
        count = SAMPLED_OF_FILE if isinstance(array, np.memmap) else SAMPLED
        sample = np.array(flat[:: max(1, array.size // count)]).tobytes()
    return ((id(array), array.ctypes.data, array.shape, array.strides, array.dtype, sample),)


def _is_same(before: Any, after: Any) -> bool:
    if type(before) is not type(after):
        return False
    if isinstance(after, list):
        return len(before) == len(after) and all(map(_is_same, before, after))
    if isinstance(after, tuple):
        if isinstance(after[0], ContentRef):  # compared by identity: equality would compare tensors
            was, now = before[0], after[0]()
            same = isinstance(was, ContentRef) and not was.swapped and was() is now is not None
            return same and bool(before[1] == after[1])
        return type(before[0]) is type(after[0]) and bool(before[0] == after[0])
    return before is after
