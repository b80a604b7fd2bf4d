"""Facts about the terms of a loss: the latent code of an autoencoder, and the sign of a policy."""

from __future__ import annotations

from collections import Counter
from typing import Final

from mothtrap.adapters.keras.layer_facts import WHEN
from mothtrap.adapters.tensorflow.probes.cells import Array
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.probes.tape_targets import Terms
from mothtrap.core.adapters import Job
from mothtrap.tracing.describe import layer_numbers
from mothtrap.tracing.describe import layers as describe
from mothtrap.tracing.describe.term_facts import REPORTED_AT, facts_of

CODE_EVERY: Final = 24
"""Number of steps after which a latent code is described again. Chosen by hand: a healthy code may
first shrink and then grow."""


class TermFacts:
    """Reports the terms of the losses of traced programs.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._looks: Counter[str | None] = Counter()
        self._next: Counter[str | None] = Counter()

    def report(self, look: Look, step: int) -> None:
        """Report the terms of the losses of a step."""
        for target in look.targets:
            if target.terms is None:
                continue
            place = target.terms.location
            self._looks[place] += 1
            if self._looks[place] in REPORTED_AT:
                looks = self._looks[place]
                for fact in facts_of(target.terms, step=step, looks=looks, location=place):
                    self._job.fact(fact)
            if WHEN.is_due(step) or step >= self._next[place]:
                self._next[place] = step + CODE_EVERY
                self._report_code(look, target.terms, step)

    def _report_code(self, look: Look, terms: Terms, step: int) -> None:
        """Report the spread of a latent code, and of the reconstruction from it."""
        if terms.mean is None or terms.log_variance is None:
            return
        mean, log_variance = terms.mean.read(), terms.log_variance.read()
        data, reconstruction = _reconstruction(look, mean.shape)
        if reconstruction is None:
            return
        own = layer_numbers.spread(data) if data is not None else None
        named = {"mean": mean, "log variance": log_variance, "reconstruction": reconstruction}
        for place, values in named.items():
            found = describe.output_spread(
                values.reshape(len(values), -1),
                step=step,
                root="the model",
                place=place,
                inputs_differ=layer_numbers.rows_differ(data) if data is not None else None,
                input_spread=own[0] if own is not None and values is reconstruction else None,
                location=terms.location,
            )
            if found is not None:
                self._job.fact(found)


def _reconstruction(look: Look, code: tuple[int, ...]) -> tuple[Array | None, Array | None]:
    """Return the first rows of the data and of the reconstruction; None if unknown.

    The reconstruction is the last output with as many values as the data.
    """
    given = [call.given.read() for call in look.layers if call.data and call.given is not None]
    outputs = [call.gave.read() for call in look.layers if call.gave is not None]
    for data in given:
        for output in reversed(outputs):
            if output.shape != code and _same_rows(data, output):
                return data, output
    return None, None


def _same_rows(data: Array, output: Array) -> bool:
    """Return whether two arrays have the same number of rows, and of values in a row."""
    return data.ndim > 1 and len(data) == len(output) > 1 and data[0].size == output[0].size
