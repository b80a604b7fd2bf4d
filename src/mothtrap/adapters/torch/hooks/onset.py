"""Diagnosis of the first step whose loss or gradient is not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mothtrap.adapters.torch.forward.nonfinite import first_nonfinite
from mothtrap.adapters.torch.losses.first_bad_location import first_bad_operation
from mothtrap.core.facts.nonfinite import FiniteOutputs

if TYPE_CHECKING:
    from mothtrap.adapters.torch.forward.forwards import ForwardObserver
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.losses.backwards import LossObserver
    from mothtrap.adapters.torch.losses.target_order import TargetOrderObserver


class Onset:
    """Looks once a step, and at the onset: what stays non-finite has one origin."""

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

    def look(self, site: str = "", loss: torch.Tensor | None = None) -> None:
        """Look for the origin of what is not finite.

        Args:
            site: where the backward was called.
            loss: before its backward, where the loss is not finite; None: a gradient is.
        """
        before, self._step = self._step, self._job.grouper.step
        if self._step <= before + 1:
            return
        job, held = self._job, self._forwards.retained
        job.contain_part("data", self._forwards.inputs.nonfinite, held)
        if loss is not None:
            job.contain_part("first bad operation", self._observe_operation, site, loss)
        job.contain_part("non-finite activations", self._observe_module, site, loss)

    def _observe_operation(self, site: str, loss: torch.Tensor) -> None:
        place = self._losses.places.get(site)
        found = first_bad_operation(
            loss, self._forwards.retained, self._job.book, self._step, place
        )
        if found is not None:
            self._job.recorder.notes.observe(found)

    def _observe_module(self, site: str, loss: torch.Tensor | None) -> None:
        found = first_nonfinite(self._forwards.retained, self._job.book, self._step)
        if found is not None:
            self._job.recorder.notes.observe(found)
        if isinstance(found, FiniteOutputs) and loss is not None:
            place, recomputes = self._losses.places.get(site), self._forwards.recomputes
            self._job.contain_part("data", self._target_order.nonfinite, place, loss, recomputes)
