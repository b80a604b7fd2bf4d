"""`Watch.step(loss=, gradients=, parameters=)`: steps that a script reports explicitly."""

from __future__ import annotations

import math
from typing import Any, Final

import jax
import numpy as np

from mothtrap.adapters.jax.functions import names_of
from mothtrap.adapters.jax.tensors import Tensors
from mothtrap.core.adapters import Given, Job, Losses
from mothtrap.core.options import Option
from mothtrap.tracing.handle import BaseHandle
from mothtrap.tracing.source import frames

TREES: Final = {"gradients": "gradient", "parameters": "weight"}
"""Arguments of a step that may be trees of arrays, and the kind of their tensors."""
UNGUARDED: Final[tuple[Option, ...]] = ("on_nonfinite", "max_gradient_norm", "snapshots")
BY_SCRIPT: Final = "the script runs the steps itself, and reports them to `step` afterwards"


class StepsByHand(BaseHandle):
    """Records the data that a script passes for each step, without replacing JAX functions.

    Args:
        job: receives the values.
    """

    def __init__(self, job: Job) -> None:
        self._tensors = Tensors(job)
        super().__init__(job)

    def step(self, given: Given) -> None:
        """Record a step with its loss and trees of gradients and parameters; never raises."""
        self.job.contain(self.take, given, True)

    def take(self, given: Given, makes_step: bool) -> None:
        """Record the passed data, and close the step if nothing else closes it."""
        for name, value in given.numbers.items():
            if name in TREES and jax.tree_util.tree_leaves(value) and not np.isscalar(value):
                names = names_of([value], [name])
                self._tensors.take(TREES[name], names, jax.tree_util.tree_leaves(value))
            else:
                self.job.number(name, value)
        if not makes_step:
            if given.loss is not None:
                self.job.number("loss", given.loss)
            return
        for option in UNGUARDED:
            self.job.settings.no_effect(option, BY_SCRIPT)
        loss = math.nan if given.loss is None else float(np.mean(np.asarray(given.loss)))
        place = frames.user_location()
        series = place or "loss"
        losses = [] if given.loss is None else [Losses(series=series, value=loss, location=place)]
        self.job.step(losses, optimizer="by hand")


def is_tree_of_arrays(target: Any) -> bool:
    """Return whether an object is a tree that contains JAX arrays, but not an array itself."""
    if isinstance(target, jax.Array):
        return False
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(target))
