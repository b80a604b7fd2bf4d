"""Detect optimizer states that are reset, or not passed on, while the weights continue to train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import jax
import numpy as np

from mothtrap.adapters.jax.functions import Layout, Traced, name_of
from mothtrap.core.adapters import Job
from mothtrap.core.facts.compiling import UpdateDropped
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.tracing.source import frames

OF_RESTARTS: Final = (OptimizerFacts,)
COUNTS: Final = "count"
"""Name of the step count in the states of optax optimizers."""
ACCUMULATES: Final = "mini_step"
"""Name in the states of optimizers that accumulate gradients, and so do not count each call."""
REPORTED_AT: Final = (8, 32)
"""Number of inspected calls, all with a count of 0, after which this is reported."""
OLD_AT: Final = (4, 16, 64)
"""Number of inspected calls with the very same state after which this is reported."""
MOMENTUM: Final = 0.9
"""Placeholder for an unknown momentum; rules only ask whether there is one."""


@dataclass(slots=True)
class _Given:
    """Counts of 0 that a function got, the step in which it got them first, and how often since."""

    zeros: list[Any]
    step: int
    looks: int = 1


class Restarts:
    """Detects optimizer states that are reset or not returned, by their step counts.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._counts: WeakKeyDictionary[Traced, tuple[int, int]] = WeakKeyDictionary()
        self._given: WeakKeyDictionary[Traced, _Given] = WeakKeyDictionary()

    def look(self, traced: Traced, layout: Layout, inputs: Any, out: Any) -> None:
        """Report a state that was reset: its count fell, or is 1 in each inspected call.

        If the calls get the very same array with a count of 0, their new states are not passed on.
        """
        words, count = _count_of(out)
        if count is None or ACCUMULATES in words or layout.repeats:
            return
        now = int(np.asarray(count))
        if self._is_old(traced, layout, inputs, now):
            return
        before, looks = self._counts.get(traced, (0, 0))
        self._counts[traced] = now, looks + 1
        if not now:
            self._report_kept(layout, looks + 1)
        if looks < 2 or not (now < before or now == before == 1):
            return
        step = self._job.now.step
        self._job.fact(
            OptimizerFacts(
                step=max(0, step - now),
                optimizer=f"{layout.function} ({looks})",
                kind="the optimizer",
                momentum=MOMENTUM if {"mu", "trace"} & words else 0.0,
                second_moments="nu" in words,
                takes_over=True,
                location=frames.user_location(),
            )
        )

    def _is_old(self, traced: Traced, layout: Layout, inputs: Any, count: int) -> bool:
        """Return whether a call got the state of the call before; report it after some looks."""
        known = self._given.get(traced)
        named = _count_of(inputs)[1]
        every = jax.tree_util.tree_leaves(inputs) if named is None else [named]
        zeros = [one for one in every if _is_zero(one)]
        same = [one for one in zeros if any(one is each for each in (known.zeros if known else ()))]
        if count != 1 or known is None or not same:
            self._given[traced] = _Given(zeros, self._job.now.step)
            return False
        known.zeros = same
        known.looks += 1
        if known.looks in OLD_AT and not layout.states:  # otherwise each call is counted
            self._job.fact(
                UpdateDropped(
                    step=self._job.now.step,
                    function=layout.function,
                    calls=self._job.now.step - known.step + 1,
                    state="opt_state",
                    location=frames.user_location(),
                )
            )
        return True

    def _report_kept(self, layout: Layout, looks: int) -> None:
        """Report a state that a function returns unchanged, although it updates the weights."""
        if looks in REPORTED_AT:
            self._job.fact(
                UpdateDropped(
                    step=self._job.now.step,
                    function=layout.function,
                    calls=looks,
                    why="not returned",
                    state="opt_state",
                    location=layout.place,
                )
            )


def _count_of(tree: Any) -> tuple[set[str], Any | None]:
    """Return the words in the paths of a tree, and the first count of a state in it."""
    paths = [(name_of(p).split("."), v) for p, v in jax.tree_util.tree_flatten_with_path(tree)[0]]
    count = next((v for parts, v in paths if parts[-1] == COUNTS and _is_number(v)), None)
    return {word for parts, _ in paths for word in parts}, count


def _is_zero(value: Any) -> bool:
    if not isinstance(value, jax.Array) or not _is_number(value) or value.is_deleted():
        return False
    return int(np.asarray(value)) == 0


def _is_number(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(dtype, np.integer) and not np.ndim(value)
