"""Replace values of a restarted script with recorded ones.

A bit-identical value remains the script's own object, because it may have a graph or be referenced
elsewhere. A value that was not kept is not changed.
"""

from __future__ import annotations

import ctypes
import dataclasses
import inspect
import random
import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

import numpy as np
import torch

from mothtrap.adapters.torch.recording.generators import take_over
from mothtrap.snapshot.tree import Opaque

MAX_DEPTH = 60
UNNAMED_SCOPES = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>", "<lambda>")
"""Names of code objects that run in the scope of an enclosing function."""
FAST_TO_LOCALS = sys.version_info < (3, 13)
"""Before Python 3.13, `f_locals` of a function is a copy that must be written back."""


def fitted(found: Any, recorded: Any, depth: int = 0) -> Any:
    """Return the replacement for a value.

    Args:
        found: value in the script.
        recorded: value in the run; parts that were not kept are `Opaque`.
        depth: current nesting depth.

    Returns:
        `found` itself if nothing in it differs.
    """
    if isinstance(recorded, Opaque) or depth > MAX_DEPTH:
        return found
    if isinstance(recorded, torch.Tensor):
        return _tensor(found, recorded)
    if isinstance(recorded, torch.Generator):
        return _generator(found, recorded)
    if isinstance(recorded, np.random.Generator | np.random.RandomState | random.Random):
        return found if take_over(found, recorded) else recorded
    if isinstance(recorded, np.ndarray | np.generic):
        return found if _same_array(found, recorded) else recorded
    if isinstance(recorded, dict):
        return _mapping(found, recorded, depth)
    if isinstance(recorded, list | tuple):
        return _sequence(found, recorded, depth)
    if type(recorded).__hash__ is not None and isinstance(recorded, set | frozenset):
        return found if type(found) is type(recorded) and found == recorded else recorded
    fields = getattr(recorded, "__dict__", None)
    if dataclasses.is_dataclass(recorded) or fields:
        return _object(found, recorded, depth)
    return found if type(found) is type(recorded) and _equal(found, recorded) else recorded


def lacking(recorded: Any, depth: int = 0) -> list[Opaque]:
    """Return the parts of a value that were not stored."""
    if isinstance(recorded, Opaque):
        return [recorded]
    parts: Iterable[Any] = ()
    if isinstance(recorded, dict):
        parts = recorded.values()
    elif isinstance(recorded, list | tuple):
        parts = recorded
    elif not isinstance(recorded, torch.Tensor | np.ndarray):
        parts = getattr(recorded, "__dict__", {}).values()
    return [one for part in parts if depth < MAX_DEPTH for one in lacking(part, depth + 1)]


def set_variables(frame: FrameType, recorded: Mapping[str, Any], *, own: bool = False) -> list[str]:
    """Set the variables of a running frame to their recorded values.

    Args:
        frame: frame of the user's code; at module level its globals are set.
        recorded: recorded values by name.
        own: only existing variables of the frame, not the variables of its module.

    Returns:
        The names of the changed variables.
    """
    code, local = frame.f_code, frame.f_locals
    in_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
    names = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    changed, others = [], {}
    for name, value in recorded.items():
        owner, _, attribute = name.rpartition(".")
        if owner:
            if _set_attribute(local.get(owner), attribute, value):
                changed.append(name)
            continue
        if own and name not in local:
            continue
        if in_function and name not in names:
            others[name] = value
        elif _set(local, name, value):
            changed.append(name)
    if changed and in_function and FAST_TO_LOCALS:
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    outer = frame.f_back
    if others and outer is not None and code.co_name in UNNAMED_SCOPES:
        return changed + set_variables(outer, others)
    # Other names in a function's code belong to the module.
    return changed + [name for name, value in others.items() if _set(frame.f_globals, name, value)]


def _set_attribute(owner: Any, name: str, recorded: Any) -> bool:
    """Set an existing attribute of an object, bypassing its `__setattr__`."""
    found = getattr(owner, "__dict__", {})
    return name in found and _set(found, name, recorded)


def _set(names: Any, name: str, recorded: Any) -> bool:
    before = names.get(name, _ABSENT)
    after = fitted(before, recorded)
    if after is before:
        return False
    names[name] = after
    return True


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have equal type, shape, device and bytes; NaN equals itself."""
    if one.dtype != other.dtype or one.shape != other.shape or one.device != other.device:
        return False
    if one.layout != torch.strided or other.layout != torch.strided:
        return False
    return torch.equal(_bytes(one), _bytes(other))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return plain.contiguous().reshape(-1).view(torch.uint8)


def _tensor(found: Any, recorded: torch.Tensor) -> Any:
    if not isinstance(found, torch.Tensor):
        return recorded
    if same_bits(found, recorded):
        return found
    # A trained leaf keeps its identity, because its optimizer refers to it.
    if found.is_leaf and found.requires_grad and found.shape == recorded.shape:
        with torch.no_grad():
            found.copy_(recorded)
        return found
    return recorded


def _generator(found: Any, recorded: torch.Generator) -> Any:
    if not isinstance(found, torch.Generator) or found.device != recorded.device:
        return recorded
    found.set_state(recorded.get_state())
    return found


def _same_array(found: Any, recorded: Any) -> bool:
    return (
        type(found) is type(recorded)
        and found.dtype == recorded.dtype
        and found.shape == recorded.shape
        and np.asarray(found).tobytes() == np.asarray(recorded).tobytes()
    )


def _mapping(found: Any, recorded: dict[Any, Any], depth: int) -> Any:
    known = found if isinstance(found, dict) else {}
    values = {k: fitted(known.get(k, _ABSENT), v, depth + 1) for k, v in recorded.items()}
    values = {k: v for k, v in values.items() if v is not _ABSENT}
    if list(known) == list(values) and all(known[k] is v for k, v in values.items()):
        return found if isinstance(found, dict) else recorded
    dict.clear(recorded)
    dict.update(recorded, values)
    return recorded


def _sequence(found: Any, recorded: Any, depth: int) -> Any:
    alike = type(found) is type(recorded) and len(found) == len(recorded)
    known = list(found) if alike else [_ABSENT] * len(recorded)
    pairs = zip(known, recorded, strict=True)
    values = [fitted(before, after, depth + 1) for before, after in pairs]
    if alike and all(before is after for before, after in zip(known, values, strict=True)):
        return found
    values = [None if value is _ABSENT else value for value in values]
    if isinstance(recorded, list):
        recorded[:] = values
        return recorded
    return tuple.__new__(type(recorded), values)


def _object(found: Any, recorded: Any, depth: int) -> Any:
    """Return the replacement for an object with data, field by field."""
    alike = type(found) is type(recorded)
    fields = dict(getattr(recorded, "__dict__", {}))
    if dataclasses.is_dataclass(recorded):
        fields |= {f.name: getattr(recorded, f.name) for f in dataclasses.fields(recorded)}
    same = alike
    for name, value in fields.items():
        before = getattr(found, name, _ABSENT) if alike else _ABSENT
        after = fitted(before, value, depth + 1)
        same = same and after is before
        if after is not value and after is not _ABSENT:
            object.__setattr__(recorded, name, after)
    return found if same else recorded


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # objects of the user may raise anything
        return False


class _Absent:
    """Represents a variable that does not exist yet."""


_ABSENT: Any = _Absent()
