"""Streams that return the same batch to `fit` repeatedly, and loops that use one batch."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.adapters.keras.fits import Fit
from mothtrap.adapters.keras.unused_elements import UnusedElements
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.tracing.source.frames import user_frame
from mothtrap.tracing.source.held_arrays import rows_of
from mothtrap.tracing.steps.same_batches import SameBatches

Array = npt.NDArray[Any]

PART: Final = 0.25
"""Largest share of the rows of an array that is a batch of it; chosen by hand."""


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
        self._generator: Callable[[], Any] = lambda: None

    def comes_from(self, data: Any) -> None:
        """Record the generator of the script that yields the batches of a `fit`, if it is one."""
        self._generator = weakref.ref(data) if inspect.isgenerator(data) else lambda: None

    def _source(self, inputs: Array, rows: int) -> tuple[str, int]:
        """Return the array of which the batch is a small part, and its number of rows."""
        generator = self._generator()
        frame = generator.gi_frame if generator is not None else user_frame()

        def read(value: Any) -> Array | None:
            array = np.asarray(value) if isinstance(value, np.ndarray) else None
            if array is None or rows > PART * len(array):
                return None
            return array.astype(inputs.dtype) if array.dtype.kind == "f" else array

        return rows_of(inputs, frame, read, PART)

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
        if not inputs or not targets:
            return
        # Of the inputs of a large batch, only the first rows are kept.
        if self._batches.add(step, [*inputs, *targets]):
            source, of_rows = self._source(inputs[0], len(targets[0]))
            if len(inputs[0]) < len(targets[0]) and not source:
                return  # it may be all the data
            self._job.fact(
                BatchesLoaded(
                    step=step,
                    loader=loader.loader,
                    sampler="iterable",
                    workers=0,
                    pass_number=self._batches.passes,
                    batches=self._batches.count,
                    repeated=self._batches.count - 1,
                    rows=max(len(inputs[0]), len(targets[0])),
                    source=source,
                    of_rows=of_rows,
                    location=loader.location,
                )
            )
