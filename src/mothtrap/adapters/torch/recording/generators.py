"""Random generators of NumPy and Python that a script has created, as trees."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from mothtrap.adapters.torch.job.randomness import python_mark
from mothtrap.core.errors import DamagedSnapshotError
from mothtrap.core.snapshots import Tree

_NUMPY = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
KINDS = ("numpy.Generator", "numpy.RandomState", "random.Random")
"""Names of the kinds of generators in a tree."""


def generator_tree(value: Any, tree: Callable[[Any], Tree]) -> Tree:
    """Return the tree of a generator; None for other values and unknown generators.

    Args:
        value: any value.
        tree: tree of the values of its state.
    """
    if isinstance(value, np.random.Generator | np.random.RandomState):
        kind = "numpy.Generator" if isinstance(value, np.random.Generator) else "numpy.RandomState"
        state = state_of(value)
        known = state.get("bit_generator") in _NUMPY
        return {"framework": kind, "fields": {"state": tree(state)}} if known else None
    if type(value) is random.Random:
        version, words, gauss = value.getstate()
        packed = np.array(words, np.uint32)
        state = {"version": version, "words": packed, "gauss": gauss}
        return {"framework": "random.Random", "fields": {"state": tree(state)}}
    return None


def generator_of(kind: str, state: Any) -> Any:
    """Create a generator with the type and state in a tree.

    Raises:
        DamagedSnapshotError: there is no such generator or state.
    """
    try:
        if kind == "random.Random":
            own = random.Random()
            words = tuple(int(word) for word in state["words"])
            own.setstate((state["version"], words, state["gauss"]))
            return own
        if state["bit_generator"] not in _NUMPY:
            raise ValueError(f"there is no generator {state['bit_generator']!r}")
        bits = getattr(np.random, state["bit_generator"])()
        made: Any = (
            np.random.Generator(bits) if kind == "numpy.Generator" else np.random.RandomState(bits)
        )
        _set_state(made, state)
    except (KeyError, TypeError, ValueError) as err:
        raise DamagedSnapshotError(f"the snapshot has no valid state of a {kind}: {err}") from err
    return made


def take_over(found: Any, recorded: Any) -> bool:
    """Copy the state of another generator of the same type; return whether that succeeded."""
    if type(found) is not type(recorded):
        return False
    if type(recorded) is random.Random:
        found.setstate(recorded.getstate())
        return True
    state = state_of(recorded)
    if state["bit_generator"] != state_of(found)["bit_generator"]:
        return False
    _set_state(found, state)
    return True


def state_of(generator: Any) -> dict[str, Any]:
    """Return the state of a NumPy generator."""
    if isinstance(generator, np.random.RandomState):
        return dict(generator.get_state(legacy=False))
    return dict(generator.bit_generator.state)


def mark_of(generator: Any) -> Any:
    """Return a marker of a user's generator state, different for different states."""
    if isinstance(generator, torch.Generator):
        state = generator.get_state()
        return (ctypes.string_at(state.data_ptr(), state.nbytes),)
    if isinstance(generator, random.Random):
        mark, own = python_mark(generator), generator.__dict__
        return ((*mark, own.get("gauss_next")),) if mark else (generator.getstate(),)
    return (_plain(state_of(generator)),)


def _plain(state: Any) -> Any:
    """Return a state without arrays, so that states can be compared with `==`."""
    if isinstance(state, np.ndarray):
        return state.tobytes()
    return {k: _plain(v) for k, v in state.items()} if isinstance(state, dict) else state


def _set_state(generator: Any, state: Mapping[str, Any]) -> None:
    if isinstance(generator, np.random.RandomState):
        generator.set_state(dict(state))
    else:
        generator.bit_generator.state = dict(state)
