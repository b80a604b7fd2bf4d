"""Streams that return the same batch to `fit` repeatedly, and loops that use one batch."""

from __future__ import annotations

from mothtrap.adapters.keras.fits import Fit
from mothtrap.adapters.keras.unused_elements import UnusedElements
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.tracing.steps.same_batches import SameBatches


class RepeatedBatches:
    """Compares the batches of a fit, or of a custom loop.

    Args:
        job: receives the facts.

    Attributes:
        loader: loader of the training batches; None if unknown.
        fit: fit in progress; None in custom loops.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._batches, self._elements = SameBatches(), UnusedElements(job)
        self.loader: LoaderBegan | None = None
        self.fit: Fit | None = None

    def pass_ended(self) -> None:
        """Record that `fit` has finished a pass over its data."""
        self._batches.begin()

    def report(self, look: Look, step: int) -> None:
        """Report a stream that returns the same batch to `fit`, or a loop that keeps one batch."""
        if self.fit is None:
            self._elements.report(look, step)
        loader = self.loader if self.fit is not None else None
        if loader is None or loader.samples is not None:
            return
        inputs = [c.given.read() for c in look.layers if c.data and c.given is not None]
        targets = [call.target.read() for call in look.losses[:1] if call.target is not None]
        if not inputs or not targets or len(inputs[0]) < len(targets[0]):
            return  # not all rows of a large batch are kept
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
