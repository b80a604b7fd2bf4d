"""`Watch.step(loss=, gradients=, parameters=)`: steps that a script tells itself."""

from __future__ import annotations

import math
from typing import Any, Final

import jax
import numpy as np

from mothtrap.adapters.jax.functions import names_of
from mothtrap.adapters.jax.tensors import Tensors
from mothtrap.core.adapters import Given, Losses, SnapshotTaker, Surroundings
from mothtrap.core.options import WITHOUT_SNAPSHOTS, Option
from mothtrap.tracing import frames
from mothtrap.tracing.adapter_job import AdapterJob

TREES: Final = {"gradients": "gradient", "parameters": "weight"}
"""Numbers of a step that may be trees of arrays, and the kind of their tensors."""
UNGUARDED: Final[tuple[Option, ...]] = ("on_nonfinite", "max_gradient_norm", "snapshots")
BY_SCRIPT: Final = "the script makes the steps itself, and passes them to `step` afterwards"


class StepsByHand:
    """Takes what a script passes for each step; nothing of JAX is replaced.

    Args:
        job: takes what is passed.
    """

    honors = WITHOUT_SNAPSHOTS

    def __init__(self, job: AdapterJob) -> None:
        self._job, self._tensors = job, Tensors(job)

    def step(self, given: Given) -> None:
        """Take a step: its loss, and trees of gradients and parameters; never raises."""
        self._job.contain(self.take, given, True)

    def take(self, given: Given, makes_step: bool) -> None:
        """Take what is passed; close the step where nothing else does."""
        for name, value in given.numbers.items():
            if name in TREES and jax.tree_util.tree_leaves(value) and not np.isscalar(value):
                names = names_of([value], [name])
                self._tensors.take(TREES[name], names, jax.tree_util.tree_leaves(value))
            else:
                self._job.number(name, value)
        if not makes_step:
            if given.loss is not None:
                self._job.number("loss", given.loss)
            return
        for option in UNGUARDED:
            self._job.settings.no_effect(option, BY_SCRIPT)
        loss = math.nan if given.loss is None else float(np.mean(np.asarray(given.loss)))
        place = frames.user_location()
        series = place or "loss"
        losses = [] if given.loss is None else [Losses(series=series, value=loss, location=place)]
        self._job.step(losses, optimizer="by hand")

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Return None: no snapshots are taken."""
        return None

    def surroundings(self) -> Surroundings | None:
        """Return None: nothing is read."""
        return None

    def stop(self, _: str) -> bool:
        """Return False: the loop is the script's own."""
        return False

    def detach(self) -> None:
        """Do nothing: nothing was replaced."""

    def abandon(self) -> None:
        """Do nothing: nothing was replaced."""


def is_tree_of_arrays(target: Any) -> bool:
    """Return whether an object is a tree with arrays of JAX in it, and no array itself."""
    if isinstance(target, jax.Array):
        return False
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(target))
