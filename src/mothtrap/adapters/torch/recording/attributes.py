"""Module attributes that are state, although they are neither parameters nor buffers.

Examples are a counter of calls, a dropout rate that changes over time, or the hidden state of the
previous batch: plain values and tensors that are attributes of a module.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.naming import strip_wrappers
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.job.tensor_refs import ContentRef
from mothtrap.adapters.torch.recording.tracked_objects import TrackedObjects

MAX_ITEMS = 64
"""Length of a list or dict above which it is a table instead of state; chosen by hand."""
MAX_VALUES = 512
"""The same limit for the values in one attribute."""
MAX_PLACES = 4096
"""Maximum number of attributes, and of values in lists and dicts, that are read; chosen by hand,
about 200 microseconds.
"""
COPIED_BYTES = 4 << 20
"""Maximum total size of changed tensors that are copied, in less than a millisecond. For larger
values, only their location is kept. Chosen by hand.
"""

LOOK_EVERY = 256
"""Readings after which modules are searched for new attributes."""

_OWN = frozenset(vars(nn.Module())) | {"training"}
_MISSING = object()
_PLAIN = frozenset({types.NoneType, bool, int, float, str})


@dataclass(slots=True, eq=False)
class _Place:
    """A module that has such attributes."""

    root: int
    path: str
    module: weakref.ref[nn.Module]
    names: list[str] = field(default_factory=list)


class _Seen:
    """A tensor as it was: its copy, or its location and how often it had been written to."""

    __slots__ = ("copy", "tensor", "version")

    def __init__(self, tensor: torch.Tensor, version: int, copy: torch.Tensor | None) -> None:
        self.tensor, self.version, self.copy = ContentRef(tensor), version, copy


class _Gone(Exception):
    """Marks a tensor that no longer exists or has changed."""


class Attributes:
    """Attributes of all submodules of all known roots, read at the same time.

    No user objects are kept alive: data in a graph is not state, and is skipped.

    Attributes:
        is_read: they were read in the step in progress.

    Args:
        known: the roots.
    """

    def __init__(self, known: TrackedObjects) -> None:
        self._known = known
        self._places: list[_Place] = []
        self._values: list[Any] = []
        self._seen: dict[int, _Seen] = {}
        self._seen_before: dict[int, _Seen] = {}
        self._left = self._left_bytes = 0
        self._reads = self._roots_seen = 0
        self.is_read = False

    def read(self) -> Attributes:
        """Read the attributes."""
        # New attributes are created in the first steps, if at all.
        look = self._reads & (self._reads - 1) == 0 or self._reads % LOOK_EVERY == 0
        self._reads += 1
        roots_seen = self._known.book.roots_seen
        if look or roots_seen != self._roots_seen:  # otherwise the known ones, or fewer
            self._roots_seen = roots_seen
            self._places = _places(self._known.modules())
        if not self._places:
            return self
        self._seen, self._seen_before = {}, self._seen
        self._left, self._left_bytes = MAX_PLACES, COPIED_BYTES
        self._values = values = []
        for place in self._places:
            module = place.module()
            held = module.__dict__ if module is not None else {}
            read = list(map(held.get, place.names, repeat(_MISSING)))
            if not _PLAIN.issuperset(map(type, read)):
                read = [v if type(v) in _PLAIN else self._frozen(v) for v in read]
            values += read
        self._seen_before = {}
        return self

    def of(self, root: nn.Module) -> dict[str, dict[str, Any]]:
        """Return the attributes of a root's submodules, by module path and name."""
        found: dict[str, dict[str, Any]] = {}
        for place, name, value in self._read():
            if place.root == id(root):
                try:
                    found.setdefault(place.path, {})[name] = _mapped(value, _as_it_was)
                except _Gone:
                    continue
        return found

    def lost(self) -> tuple[str, ...]:
        """Return descriptions of attributes that were too large to copy and have changed."""
        found = []
        for place, name, value in self._read():
            try:
                _mapped(value, _as_it_was)
            except _Gone:
                path = f"{place.path}.{name}".lstrip(".")
                found.append(f"attribute {path} before the step")
        return tuple(found)

    def _read(self) -> Iterable[tuple[_Place, str, Any]]:
        values = iter(self._values)
        every = ((p, name, next(values, _MISSING)) for p in self._places for name in p.names)
        return (found for found in every if found[2] is not _MISSING)

    def _frozen(self, value: Any) -> Any:
        """Return an immutable copy without the user's tensors; `_MISSING` if it is not state."""
        size = _size(value) if value is not _MISSING else MAX_VALUES + 1
        if size > MAX_VALUES or size > self._left:
            return _MISSING
        self._left -= size
        return _mapped(value, self._tensor)

    def _tensor(self, tensor: torch.Tensor) -> Any:
        if not is_plain(tensor) or tensor.layout is not torch.strided:
            return _Seen(tensor, -1, None)
        version = -1 if tensor.is_inference() else tensor._version
        known = self._seen_before.get(id(tensor))
        copy = None
        if tensor.nbytes <= self._left_bytes:
            self._left_bytes -= tensor.nbytes
            if known is not None and known.version == version >= 0 and not known.tensor.swapped:
                copy = known.copy if known.tensor() is tensor else None
            if copy is None:
                copy = tensor.detach().clone()
        seen = self._seen[id(tensor)] = _Seen(tensor, version, copy)
        return seen


def _as_it_was(seen: _Seen) -> torch.Tensor:
    if seen.copy is not None:
        return seen.copy
    tensor = seen.tensor()
    if tensor is None or seen.tensor.swapped:
        raise _Gone
    if seen.version >= 0 and tensor._version != seen.version:
        raise _Gone
    return tensor


def _mapped(value: Any, put: Callable[[Any], Any]) -> Any:
    """Copy a value, replacing tensors or their placeholders."""
    if isinstance(value, torch.Tensor | _Seen):
        return put(value)
    if isinstance(value, dict):
        copy = value.copy()
        for key, item in value.items():
            if type(item) not in _PLAIN:
                copy[key] = _mapped(item, put)
        return copy
    if isinstance(value, list):
        return [item if type(item) in _PLAIN else _mapped(item, put) for item in value]
    if isinstance(value, tuple) and any(type(item) not in _PLAIN for item in value):
        items = [_mapped(item, put) for item in value]
        return type(value)._make(items) if hasattr(value, "_make") else tuple(items)
    return value


def _places(roots: Iterable[nn.Module]) -> list[_Place]:
    found, left = [], MAX_PLACES
    for root in roots:
        for path, module in root.named_modules():
            theirs = not type(module).__module__.startswith("torch.")
            names = [
                name
                for name, value in vars(module).items()
                if name not in _OWN
                and (isinstance(value, float) or (theirs and _size(value) <= MAX_VALUES))
            ][:left]
            if names:
                left -= len(names)
                reference = weakref.ref(module)
                found.append(_Place(id(root), strip_wrappers(path), reference, names))
    return found


def _size(value: Any, depth: int = 0) -> int:
    """Return the number of values in a piece of state; more than `MAX_VALUES` for other objects."""
    if type(value) in _PLAIN or isinstance(value, bool | int | float | str):
        return 1
    if isinstance(value, torch.Tensor):
        is_state = value.grad_fn is None and not isinstance(value, nn.Parameter)
        return 1 if is_state else MAX_VALUES + 1
    if depth > 2 or not isinstance(value, list | tuple | dict) or len(value) > MAX_ITEMS:
        return MAX_VALUES + 1
    if isinstance(value, dict) and not all(isinstance(key, str | int) for key in value):
        return MAX_VALUES + 1
    size = 1
    for item in value.values() if isinstance(value, dict) else value:
        size += _size(item, depth + 1)
        if size > MAX_VALUES:
            break
    return size
