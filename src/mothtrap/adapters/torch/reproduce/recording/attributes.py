"""Attributes of modules that are state though nothing declares them so.

A counter of calls, a share of dropout that is annealed, the hidden state of the batch before:
plain values and tensors that lie in a module as attributes, neither parameters nor buffers.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.naming import strip_wrappers
from mothtrap.adapters.torch.reproduce.keeping.known import KnownObjects

MAX_ITEMS = 64
"""Of a list or dict above which it is no state but a table; chosen by hand."""
MAX_PLACES = 4096
"""Attributes that are read; chosen by hand, some 200 microseconds."""

LOOK_EVERY = 256
"""Readings after which modules are looked through for new attributes."""

_OWN = frozenset(vars(nn.Module())) | {"training"}
_MISSING = object()


class Attributes:
    """The attributes of all parts of all known roots, read at one moment.

    Args:
        known: the roots.
    """

    def __init__(self, known: KnownObjects) -> None:
        self._known = known
        self._places: list[tuple[int, str, weakref.ref[nn.Module], str]] = []
        self._roots: list[int] = []
        self._values: list[Any] = []
        self._reads = 0
        self._is_read = False

    def read(self) -> Attributes:
        """Read them now; what a tensor holds is not copied."""
        roots = [root.module for root in self._known.roots()]
        # New ones come to be in the first steps, if at all.
        look = self._reads & (self._reads - 1) == 0 or self._reads % LOOK_EVERY == 0
        self._reads += 1
        if look or [id(root) for root in roots] != self._roots:
            self._roots = [id(root) for root in roots]
            self._places = [place for root in roots for place in _places(root)][:MAX_PLACES]
        self._values = [_value(module(), name) for _, _, module, name in self._places]
        return self

    def before_forward(self) -> None:
        """Read them unless that was done since the last step."""
        if not self._is_read:
            self._is_read = True
            self.read()

    def new_step(self) -> None:
        """What was read is of the step that is over."""
        self._is_read = False

    def of(self, root: nn.Module) -> dict[str, dict[str, Any]]:
        """Those of the parts of a root, by path of the part and name."""
        found: dict[str, dict[str, Any]] = {}
        for (owner, path, _, name), value in zip(self._places, self._values, strict=False):
            if owner == id(root) and value is not _MISSING and _is_state(value):
                found.setdefault(path, {})[name] = value
        return found


def _value(module: nn.Module | None, name: str) -> Any:
    value = vars(module).get(name, _MISSING) if module is not None else _MISSING
    return value.copy() if isinstance(value, list | dict) else value


def _places(root: nn.Module) -> list[tuple[int, str, weakref.ref[nn.Module], str]]:
    found = []
    for path, module in root.named_modules():
        held = vars(module)
        theirs = not type(module).__module__.startswith("torch.")
        for name, value in held.items():
            if name not in _OWN and (isinstance(value, float) or (theirs and _is_state(value))):
                found.append((id(root), strip_wrappers(path), weakref.ref(module), name))
    return found


def _is_state(value: Any, depth: int = 0) -> bool:
    if value is None or isinstance(value, bool | int | float | str):
        return True
    if isinstance(value, torch.Tensor):
        return value.grad_fn is None and not isinstance(value, nn.Parameter)
    if depth > 2 or not isinstance(value, list | tuple | dict) or len(value) > MAX_ITEMS:
        return False
    if isinstance(value, dict):
        keys = all(isinstance(key, str | int) for key in value)
        return keys and all(_is_state(item, depth + 1) for item in value.values())
    return all(_is_state(item, depth + 1) for item in value)
