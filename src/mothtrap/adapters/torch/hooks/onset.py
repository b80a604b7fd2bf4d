"""Diagnosis of the first step whose loss or gradient is not finite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from mothtrap.adapters.torch.forward.nonfinite import first_nonfinite
from mothtrap.adapters.torch.losses import bad_in_source
from mothtrap.adapters.torch.losses.first_bad_location import first_bad_operation
from mothtrap.core.facts.nonfinite import FiniteOutputs
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.forward.forwards import ForwardObserver
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.losses.backwards import LossObserver
    from mothtrap.adapters.torch.losses.target_order import TargetOrderObserver
    from mothtrap.adapters.torch.source.bad_values import BadValue


class Onset:
    """Searches once per step, at the onset, for the origin of non-finite values."""

    def __init__(
        self,
        job: Job,
        forwards: ForwardObserver,
        losses: LossObserver,
        target_order: TargetOrderObserver,
    ) -> None:
        self._job, self._forwards = job, forwards
        self._losses, self._target_order = losses, target_order
        self._step = -2
        self._given: BadValue | None = None

    def look(self, site: str = "", loss: torch.Tensor | None = None) -> None:
        """Search for the origin of non-finite values.

        Args:
            site: call site of the backward pass.
            loss: loss before its backward pass, if it is not finite; None: a gradient is not
                finite.
        """
        before, self._step = self._step, self._job.grouper.step
        if self._step <= before + 1:
            return
        self._given = None
        job, held = self._job, self._forwards.retained
        job.contain_part("data", self._forwards.inputs.nonfinite, held)
        if loss is not None:
            job.contain_part("first bad operation", self._observe_operation, site, loss)
        else:
            job.contain_part("first bad operation", self._observe_derivative)
        job.contain_part("non-finite activations", self._observe_module, site, loss)
        self._given = None  # it keeps frames of the script alive, with all of their variables

    def _observe_operation(self, site: str, loss: torch.Tensor) -> None:
        place = self._losses.places.get(site)
        held = self._forwards.retained
        found = first_bad_operation(loss, held, self._job.book, self._step, place)
        written = bad_in_source.of_call(frames.user_frame(), held)
        if written is not None and not written.given:
            found = bad_in_source.joined(bad_in_source.fact_of(written, self._step), found)
        elif found is None or found.since is not None:
            self._given = written
        if found is not None:
            self._job.recorder.notes.observe(found)

    def _observe_given(self, place: str | None) -> None:
        """Report a value that was non-finite when the script got it, unless from a loader."""
        batch = self._forwards.inputs.loaders.latest
        if self._given is None or (batch is not None and batch.told):
            return
        found = bad_in_source.input_of(self._given, self._step, place)
        if found is not None:
            self._job.recorder.notes.observe(found)

    def _observe_derivative(self) -> None:
        """Search for the cause of non-finite gradients; the graph no longer exists."""
        losses = self._losses.of(self._job.grouper.losses[-1:])
        if not losses:
            return
        finite = math.isfinite(losses[0][0])
        site, held = self._job.grouper.losses[-1][0], self._forwards.retained
        found = bad_in_source.of_backward(frames.user_frame(), site, held, finite=finite)
        if found is not None and not found.given:
            fact = bad_in_source.fact_of(found, self._step, backward=finite)
            self._job.recorder.notes.observe(fact)

    def _observe_module(self, site: str, loss: torch.Tensor | None) -> None:
        found = first_nonfinite(self._forwards.retained, self._job.book, self._step)
        if found is not None:
            self._job.recorder.notes.observe(found)
        if loss is not None:
            finite = isinstance(found, FiniteOutputs)
            self._job.contain_part("data", self._observe_data, site, loss, finite)

    def _observe_data(self, site: str, loss: torch.Tensor, finite: bool) -> None:
        """Report targets, or other data of the script, that are not finite."""
        place, recomputes = self._losses.places.get(site), self._forwards.recomputes
        if not finite or not self._target_order.nonfinite(place, loss, recomputes):
            self._observe_given(place)
