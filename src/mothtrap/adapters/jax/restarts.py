"""Detect optimizer states that are reset while the weights continue to train."""

from __future__ import annotations

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
MOMENTUM: Final = 0.9
"""Placeholder for an unknown momentum; rules only ask whether there is one."""


class Restarts:
    """Detects optimizer states that are reset or not returned, by their step counts.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._counts: WeakKeyDictionary[Traced, tuple[int, int]] = WeakKeyDictionary()

    def look(self, traced: Traced, layout: Layout, out: Any) -> None:
        """Report a state that was reset: its count fell, or is 1 in each inspected call."""
        paths = [
            (name_of(p).split("."), v) for p, v in jax.tree_util.tree_flatten_with_path(out)[0]
        ]
        words = {word for parts, _ in paths for word in parts}
        count = next((v for parts, v in paths if parts[-1] == COUNTS and _is_number(v)), None)
        if count is None or ACCUMULATES in words or layout.repeats:
            return
        now = int(np.asarray(count))
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


def _is_number(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(dtype, np.integer) and not np.ndim(value)
