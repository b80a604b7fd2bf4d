"""Inputs of steps that donate their arguments, recomputed from a copy and the later calls.

Donated arguments are deleted once a step has run. So a copy is made at intervals, and the batches
since then are kept. Values passed from one call to the next are identified by their position. The
script's own executable recomputes the inputs of a later call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import jax
import numpy as np

from mothtrap.adapters.jax.functions import Layout, Traced
from mothtrap.adapters.jax.jitted import Jitted

MOST_CALLS: Final = 64
"""Maximum number of calls between two copies, and therefore of calls that must be repeated."""
ROOM: Final = 3
"""A copy is made only if the device has free memory for this many copies."""


class NotTheSame(Exception):
    """A repeated call returned a different loss than the first time."""


@dataclass(frozen=True, slots=True)
class Result:
    """An argument that is a result of the previous call; `index` is its leaf."""

    index: int


@dataclass(slots=True)
class Stretch:
    """A copy of the arguments of one call, and the arguments of later calls.

    Attributes:
        tree: structure of the arguments.
        start: leaves of the first call's arguments; arrays are copies.
        later: leaves of each later call, or their origin.
        held: size of the later leaves in bytes.
        losses: losses that calls returned, by their position in the stretch.
        steps: step numbers of the calls, by position.
    """

    tree: Any
    start: list[Any]
    later: list[list[Any]] = field(default_factory=list)
    held: int = 0
    losses: dict[int, float] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Size of the copy in bytes."""
        return _bytes(self.start)


@dataclass(frozen=True, slots=True)
class Again:
    """Recipe to recreate the inputs of one call.

    Args:
        jitted: the compiled function.
        stretch: stretch that contains the call.
        calls: number of earlier calls in the stretch.
    """

    jitted: Jitted
    stretch: Stretch
    calls: int

    def before(self) -> Again | None:
        """Return the recipe for the previous call; None if it is no longer stored."""
        return Again(self.jitted, self.stretch, self.calls - 1) if self.calls else None

    def note(self, step: int, loss: float | None) -> None:
        """Store the number of the call's step, and the returned loss."""
        self.stretch.steps[self.calls] = step
        if loss is not None:
            self.stretch.losses[self.calls] = loss

    def inputs(self, layout: Layout, met: Callable[[int, float], None] | None = None) -> Any:
        """Return the original arguments, by position and name, bit for bit.

        Args:
            layout: layout of the function.
            met: called with the position and loss of each call on the way.

        Raises:
            NotTheSame: a loss on the way was different, and `met` is missing.
        """
        met = met or self._same
        leaves = [copied(leaf) for leaf in self.stretch.start]
        for call in range(self.calls):
            args, kwargs = jax.tree_util.tree_unflatten(self.stretch.tree, leaves)
            results = jax.tree_util.tree_leaves(self.jitted.raw(*args, **kwargs))
            if layout.loss is not None:
                met(call, mean_of(results[layout.loss]))
            leaves = [
                results[leaf.index] if isinstance(leaf, Result) else copied(leaf)
                for leaf in self.stretch.later[call]
            ]
        return jax.tree_util.tree_unflatten(self.stretch.tree, leaves)

    def _same(self, call: int, now: float) -> None:
        before = self.stretch.losses.get(call, math.nan)
        if math.isfinite(before) and now != before:
            raise NotTheSame(
                f"{self.calls - call} steps earlier, the loss was {before:.9g}, but "
                f"{now:.9g} when repeated"
            )


def mean_of(loss: Any) -> float:
    """Return the mean of the losses that a call returned."""
    return float(np.mean(np.asarray(loss, dtype=np.float64)))


def donates(jitted: Jitted, args: Sequence[Any]) -> bool:
    """Return whether a call to a function may donate arguments.

    The functions of equinox always donate a dictionary, which is empty unless the script asks for
    donations.
    """
    if jitted.options.get("donate_argnames") not in (None, (), []):
        return True
    given = jitted.options.get("donate_argnums")
    numbers = [given] if isinstance(given, int) else list(given or ())
    if not all(0 <= number < len(args) for number in numbers):
        return True  # perhaps passed by name
    return bool(jax.tree_util.tree_leaves([args[number] for number in numbers]))


class Donations:
    """Copies donated arguments.

    Args:
        most_held: maximum size in bytes of batches that may be held between two copies of a
            function's arguments.
    """

    def __init__(self, most_held: float) -> None:
        self._most_held = most_held
        self._stretches: WeakKeyDictionary[Traced, Stretch] = WeakKeyDictionary()
        self._results: WeakKeyDictionary[Traced, list[Any]] = WeakKeyDictionary()

    def before(self, jitted: Jitted, args: Any, kwargs: Any) -> Again | None:
        """Process a call that is about to be made; None without donations or memory."""
        if self._most_held <= 0 or not donates(jitted, args):
            return None
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        stretch = self._stretches.get(jitted.traced)
        found = self._origins(jitted.traced, leaves)
        if stretch is not None and found is not None and stretch.tree == tree:
            stretch.held += _bytes(found)
            most = min(max(stretch.size, 2**20), self._most_held)
            if stretch.held <= most and len(stretch.later) < MOST_CALLS:
                stretch.later.append(found)
                return Again(jitted, stretch, len(stretch.later))
        if not has_room(leaves):
            self._stretches.pop(jitted.traced, None)
            return None
        made = Stretch(tree, [copied(leaf) for leaf in leaves])
        self._stretches[jitted.traced] = made
        return Again(jitted, made, 0)

    def after(self, jitted: Jitted, out: Any) -> None:
        """Process the result of the call."""
        if jitted.traced in self._stretches:
            self._results[jitted.traced] = jax.tree_util.tree_leaves(out)

    def _origins(self, traced: Traced, leaves: Sequence[Any]) -> list[Any] | None:
        """Return the origin of arguments: copies, except for results of the previous call."""
        results = self._results.get(traced)
        if results is None:
            return None
        places = {id(leaf): index for index, leaf in enumerate(results)}
        return [Result(places[id(leaf)]) if id(leaf) in places else copied(leaf) for leaf in leaves]


def copied(leaf: Any) -> Any:
    """Copy an array on its device; return other values unchanged."""
    return leaf.copy() if isinstance(leaf, jax.Array | np.ndarray) else leaf


def _bytes(leaves: Sequence[Any]) -> int:
    return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, jax.Array | np.ndarray))


def has_room(leaves: Sequence[Any]) -> bool:
    """Return whether each device has enough memory to copy some arrays."""
    devices = {d for leaf in leaves if isinstance(leaf, jax.Array) for d in leaf.devices()}
    size = _bytes(leaves)
    for device in devices:
        memory = device.memory_stats() or {}
        limit, used = memory.get("bytes_limit"), memory.get("bytes_in_use", 0)
        if limit is not None and limit - used < ROOM * size:
            return False
    return True
