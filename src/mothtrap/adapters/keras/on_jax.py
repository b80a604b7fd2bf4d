"""Keras on JAX: the adapter of JAX sees its compiled steps; this one names what is in them."""

from __future__ import annotations

from typing import Any

import keras

from mothtrap.adapters.jax.functions import OWNERS, Owner
from mothtrap.core.adapters import Given, Job, SnapshotTaker, Surroundings
from mothtrap.core.options import WITHOUT_SNAPSHOTS


class KerasOnJaxHandle:
    """Names for the adapter of JAX, which sees the steps that `fit` makes.

    Keras keeps running means of an epoch: the loss of a step comes from the totals behind them.

    Args:
        job: takes the user's own numbers.
    """

    honors = WITHOUT_SNAPSHOTS

    def __init__(self, job: Job) -> None:
        self._job = job
        OWNERS.append(_owner_of)

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Return None: no snapshots are taken."""
        return None

    def step(self, given: Given) -> None:
        """Add numbers of the user's to the step in progress."""
        for name, value in given.numbers.items():
            self._job.number(name, value)

    def surroundings(self) -> Surroundings | None:
        """Return None: nothing is read."""
        return None

    def stop(self, _: str) -> bool:
        """Return False: the loop is not ended from here."""
        return False

    def detach(self) -> None:
        """Name nothing any more."""
        OWNERS.remove(_owner_of)

    def abandon(self) -> None:
        """Name nothing any more, in a forked child."""
        OWNERS.remove(_owner_of)


def _owner_of(model: Any) -> Owner | None:
    if not isinstance(model, keras.Model):
        return None
    metrics = [id(variable) for variable in model.metrics_variables]
    tracker = getattr(model, "_loss_tracker", None)
    own = [id(getattr(tracker, name, None)) for name in ("total", "count")]

    def totals(out: Any) -> tuple[Any, Any] | None:
        """Return those of the loss from what `train_step` or `test_step` returns: logs, state."""
        state = out[1] if isinstance(out, tuple) and len(out) == 2 else None
        if not isinstance(state, tuple) or not state or not set(own) <= set(metrics):
            return None
        values = state[-1]
        if not isinstance(values, list) or len(values) != len(metrics):
            return None
        return values[metrics.index(own[0])], values[metrics.index(own[1])]

    return Owner(names=tuple(str(v.path) for v in model.trainable_variables), totals=totals)
