"""States of optimizers that a script creates again for weights that are being trained."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax

from mothtrap.core.adapters import Job
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.tracing.source import frames

CREATES: Final = "init_fn"
"""Name of the functions of optax that create a state."""
MAX_DEPTH: Final = 6
"""Frames between such a function and the function of optax that creates zeros. From the code."""
MAX_REPORTED: Final = 256
"""Number of states that are reported per line. Chosen by hand."""
MOMENTUM: Final = 0.9
"""Placeholder for an unknown momentum; rules only ask whether there is one."""


@dataclass(slots=True)
class _Trained:
    """Weights for which a line created a state, as changed by all updates since then."""

    leaf: weakref.ref[Any]
    updates: int = 0
    reported: int = 0


class FreshStates:
    """Detects new states for weights that the state created at the same line has trained.

    The weights must be the result of the updates since the earlier state was created, and of
    nothing else. An inner loop over tasks starts each time from weights that it did not train, and
    a new model has weights that no update produced. Neither is reported.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._by_line: dict[str, _Trained] = {}

    def created(self, weights: Any) -> None:
        """Process zeros that optax created for weights, if they are a state of an optimizer."""
        leaf, line = _first_of(weights), frames.user_location()
        if leaf is None or line is None or not _is_in_init(sys._getframe(1)):
            return
        known = self._by_line.get(line)
        if known is None:
            self._by_line[line] = _Trained(weakref.ref(leaf))
            return
        if known.leaf() is leaf and known.updates and known.reported < MAX_REPORTED:
            known.reported += 1
            self._job.fact(
                OptimizerFacts(
                    step=self._job.now.step,
                    optimizer=f"{line} ({known.reported})",
                    kind="the state of the optimizer",
                    momentum=MOMENTUM,
                    takes_over=True,
                    location=line,
                )
            )
        known.leaf, known.updates = weakref.ref(leaf), 0

    def applied(self, weights: Any, updated: Any) -> None:
        """Process an update of weights."""
        if not self._by_line:
            return
        leaf, result = _first_of(weights), _first_of(updated)
        if leaf is None or result is None:
            return
        for known in self._by_line.values():
            if known.leaf() is leaf:
                known.leaf, known.updates = weakref.ref(result), known.updates + 1


def _first_of(weights: Any) -> Any | None:
    """Return the first array of a tree; None if there is none, or if it is being traced."""
    leaves: Sequence[Any] = jax.tree_util.tree_leaves(weights)
    if not leaves or not isinstance(leaves[0], jax.Array):
        return None
    return None if isinstance(leaves[0], jax.core.Tracer) else leaves[0]


def _is_in_init(frame: Any) -> bool:
    """Return whether optax is creating a state in one of the innermost frames."""
    for _ in range(MAX_DEPTH):
        if frame is None:
            return False
        module = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_name == CREATES and module.partition(".")[0] == "optax":
            return True
        frame = frame.f_back
    return False
