"""Facts about the losses of a step: how each was computed, and its targets.

`Steps` calls `LossCalls.report` for each record of a full step that has run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from msgspec import structs

from mothtrap.adapters.keras import added_masks, layers, losses
from mothtrap.adapters.keras.agreeing_losses import AgreementLooks
from mothtrap.adapters.keras.causality import sight_of_look
from mothtrap.adapters.keras.loss_terms import TermFacts
from mothtrap.adapters.keras.repeated_batches import RepeatedBatches
from mothtrap.adapters.tensorflow import raw_losses
from mothtrap.adapters.tensorflow.probes.cells import Array
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.core.adapters import Job
from mothtrap.tracing.describe import target_samples
from mothtrap.tracing.describe.loss_numbers import Called
from mothtrap.tracing.describe.losses import loss_call
from mothtrap.tracing.describe.target_order import TargetsInOrder

FIRST_LOOKS: Final = 3
"""Number of inspections of a call that include expensive checks."""
EVERY: Final = 32
"""Interval of steps in which targets are inspected, after the first 256 steps."""


class LossCalls:
    """Describes losses from recorded data.

    Args:
        job: receives the facts.
        batches: the fit in progress, and the loader of its batches.
    """

    def __init__(self, job: Job, batches: RepeatedBatches) -> None:
        self._job, self._batches = job, batches
        self._parts = AgreementLooks(job), TermFacts(job), batches
        self._orders: dict[str, TargetsInOrder] = {}
        self._looks: dict[str, int] = {}

    def report(self, look: Look, step: int, series: str | None, chosen: Mapping[str, str]) -> None:
        """Report the losses of a step if they are due.

        Args:
            look: observations of the step.
            step: step in progress.
            series: series of the losses; None if there are several.
            chosen: lines that chose losses, by the line that calls the loss.
        """
        if step >= 256 and step % EVERY:
            return
        for target in look.targets:
            if target.broadcast is not None:
                self._job.fact(target.broadcast.fact(step, series, target.location))
        added_masks.report(look, self._job, step)
        for part in self._parts:
            part.report(look, step)
        raw_losses.report(look, self._job, step, series)
        fit, inputs, decoder = self._batches.fit, _inputs(_data(look)), _inputs(_later(look))
        alone = (
            (len(look.losses), len(look.raw)) == (1, 0)
            and not any(layers.has_penalty(c.layer) for c in look.layers)
            and (fit is not None or look.loss_is_whole)
        )
        one_input = len(_data(look)) == 1
        sight = sight_of_look(look, has_decoder=bool(_later(look))) if one_input else (None, None)
        for call in look.losses:
            if call.prediction is None or call.target is None:
                continue
            prediction = call.prediction.read()
            counted = call.counted.read() if call.counted is not None else None
            one = losses.called(call, call.target.read(), prediction, counted)
            if one is None:
                continue
            site = call.location or "loss"
            times = self._looks[site] = self._looks.get(site, -1) + 1
            fact = loss_call(
                one,
                prediction,
                inputs,
                columns=times < FIRST_LOOKS,
                decoder=decoder,
                class_weights=fit.class_weights if fit is not None else None,
                step=step,
                series=series,
                alone=alone,
                chosen_at=chosen.get(call.location or ""),
                **losses.about(call, one, prediction),
            )
            if fact.targets is not None and fact.targets.input_offsets == (1,):  # next tokens
                fact = structs.replace(fact, looks_ahead=sight[0], made_at=sight[1])
            self._job.fact(fact)
            self._report_order(site, call.location, step, one)

    def _report_order(self, site: str, location: str | None, step: int, called: Called) -> None:
        order = self._orders.setdefault(site, TargetsInOrder(site, location))
        if order.is_due(step):
            loader = self._batches.loader
            name, sampler = (loader.loader, loader.sampler) if loader else (None, None)
            self._job.fact(order.fact(step, loader=name, sampler=sampler))
        target_samples.add_to_order(order, step, called)


def _data(look: Look) -> list[tuple[Any, Slot]]:
    """Return the layers that received the model's input data, with that data."""
    given = [(c.layer, c.given) for c in look.layers if c.data and c.given is not None]
    if any(layers.type_of(c.layer) == "RepeatVector" for c in look.layers):
        given = [pair for pair in given if not layers.looks_up(pair[0])]  # added by the next call
    return given


def _later(look: Look) -> list[tuple[Any, Slot]]:
    """Return the layers that received other arguments of the model, such as a decoder's inputs."""
    return [(c.layer, c.given) for c in look.layers if c.later and c.given is not None]


def _inputs(given: list[tuple[Any, Slot]]) -> list[Array]:
    """Return inputs of layers; tokens as integers, although the model may get them as floats."""
    return [
        slot.read().astype(np.int64) if layers.looks_up(layer) else slot.read()
        for layer, slot in given
    ]
