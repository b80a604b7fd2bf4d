"""Loss calls of a step: how each was computed, and its targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from mothtrap.adapters.keras import layers, losses
from mothtrap.adapters.keras.causality import looks_ahead
from mothtrap.adapters.keras.fits import Fit
from mothtrap.adapters.tensorflow.probes import probes
from mothtrap.adapters.tensorflow.probes.cells import Array
from mothtrap.adapters.tensorflow.probes.probes import LOSS_ROWS, Look, Slot
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.tracing.describe import loss_numbers
from mothtrap.tracing.describe.loop_evaluations import LoopEvaluations
from mothtrap.tracing.describe.loss_numbers import Called
from mothtrap.tracing.describe.target_order import TargetsInOrder
from mothtrap.tracing.steps.same_batches import SameBatches

FIRST_LOOKS: Final = 3
"""Inspections of a call in which costlier questions are asked, too."""
EVERY: Final = 32
"""Steps beyond the first 256 in which targets are inspected: one in N."""


class LossCalls:
    """Describes losses from recorded data.

    Args:
        job: receives the facts.

    Attributes:
        loader: loader of the training batches; None if unknown.
        fit: fit in progress; None in custom loops.
        evaluations: evaluations that the script computes in custom loops.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._orders: dict[str, TargetsInOrder] = {}
        self._looks: dict[str, int] = {}
        self._batches = SameBatches()
        self.loader: LoaderBegan | None = None
        self.fit: Fit | None = None
        self.evaluations = LoopEvaluations(job)

    def tell(self, look: Look, step: int, series: str | None, chosen: Mapping[str, str]) -> None:
        """Report the losses of a step if they are due.

        Args:
            look: observations of the step.
            step: step in progress.
            series: series of the losses; None if there are several.
            chosen: lines that chose losses, by those that call them.
        """
        if step >= 256 and step % EVERY:
            return
        self._tell_broadcasts(look, step, series)
        self._tell_repeated(look, step)
        alone = len(look.losses) == 1 and not any(layers.has_penalty(c.layer) for c in look.layers)
        given = [c for c in look.layers if c.data and c.given is not None]
        if any(layers.type_of(c.layer) == "RepeatVector" for c in look.layers):
            given = [c for c in given if not layers.looks_up(c.layer)]  # it is to say them again
        inputs = [_read(c.layer, c.given) for c in given if c.given is not None]
        sights = [sight for sight, _ in look.sights] if len(given) == 1 else []
        ahead = looks_ahead(sights) if sights else None
        at = next((place for sight, place in look.sights if sight == ahead), None)
        for call in look.losses:
            if call.prediction is None or call.target is None:
                continue
            prediction = call.prediction.read()
            one = losses.called(call, call.target.read(), prediction)
            if one is None:
                continue
            site = call.location or "loss"
            times = self._looks[site] = self._looks.get(site, -1) + 1
            softmax = losses.softmax_size(call, prediction)
            self._job.fact(
                losses.fact(
                    call,
                    one,
                    prediction,
                    step=step,
                    series=series,
                    chosen_at=chosen.get(call.location or ""),
                    inputs=inputs,
                    alone=alone,
                    columns=times < FIRST_LOOKS,
                    softmax=softmax,
                    looks_ahead=ahead,
                    made_at=at,
                    class_weights=self.fit.class_weights if self.fit is not None else None,
                )
            )
            order = self._orders.setdefault(site, TargetsInOrder(site, call.location))
            if order.is_due(step):
                loader = self.loader
                self._job.fact(
                    order.fact(
                        step,
                        loader=loader.loader if loader else None,
                        sampler=loader.sampler if loader else None,
                    )
                )
            loss_numbers.add_to_order(order, step, one)

    def pass_ended(self) -> None:
        """Record that `fit` has finished a pass over its data."""
        self._batches.begin()

    def ran(self, programs: Sequence[Look]) -> None:
        """Process programs that made no step: evaluations, if they computed losses."""
        for look in programs:
            for call, value in look.evaluated:
                self.evaluated(call, value)

    def evaluated(self, call: probes.LossCall, value: Slot) -> None:
        """Take a loss that no tape records.

        Args:
            call: call of the loss.
            value: mean loss per row and the number of rows, shape (2,).
        """
        mean, rows = value.read().tolist()
        look = partial(_labels, call) if call.target is not None and rows <= LOSS_ROWS else None
        self.evaluations.add(call.location, mean, int(rows), look)

    def _tell_repeated(self, look: Look, step: int) -> None:
        """Report a stream that has given `fit` the same batch again and again."""
        loader = self.loader if self.fit is not None else None
        if loader is None or loader.samples is not None:
            return
        inputs = [c.given.read() for c in look.layers if c.data and c.given is not None]
        targets = [call.target.read() for call in look.losses[:1] if call.target is not None]
        if not inputs or not targets or len(inputs[0]) < len(targets[0]):
            return  # of a large batch not all rows are kept
        if self._batches.add(step, [*inputs, *targets]):
            self._job.fact(
                BatchesLoaded(
                    step=step,
                    loader=loader.loader,
                    sampler="iterable",
                    workers=0,
                    pass_number=self._batches.passes,
                    batches=self._batches.count,
                    repeated=self._batches.count - 1,
                    rows=len(inputs[0]),
                    location=loader.location,
                )
            )

    def _tell_broadcasts(self, look: Look, step: int, series: str | None) -> None:
        for target in look.targets:
            if target.broadcast is not None:
                self._job.fact(target.broadcast.fact(step, series, target.location))


def _labels(call: probes.LossCall) -> Called | None:
    assert call.target is not None
    return losses.labels(call, call.target.read())


def _read(layer: Any, given: Slot) -> Array:
    """Return the input of a layer; tokens as integers, although a model may get them as floats."""
    return given.read().astype(np.int64) if layers.looks_up(layer) else given.read()
