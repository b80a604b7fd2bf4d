"""Detect calls to `kl_div` with probabilities instead of log-probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.losses.loss_calls import LossInputs
from mothtrap.core.facts.losses import LossCall
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

LOOKS = 8
"""Number of calls whose graph is read. Chosen by hand: the kind of input does not change."""


class DivergenceObserver:
    """Finds out how the first argument of `kl_div` was computed.

    A graph cannot distinguish a divergence from other differences of products, so the
    call itself is inspected.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._looks = 0

    def called(self, inputs: LossInputs) -> None:
        """Handle a call to `kl_div` whose result has a graph."""
        given = inputs.prediction
        if self._looks >= LOOKS or given is None or given.grad_fn is None:
            return
        self._looks += 1
        chain = graph.chain(given.grad_fn)
        if chain[:1] != ("softmax",):
            return
        self._job.recorder.notes.observe(
            LossCall(
                step=self._job.grouper.step,
                operation="kl_div",
                chain=chain,
                prediction_shape=tuple(given.shape),
                classes=given.shape[-1] if given.ndim else None,
                reduction=inputs.reduction,
                location=frames.user_location(),
            )
        )
