"""Compare a replayed step with the recorded one, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.adapters.torch.snapshots.reference_digests import StepDigests
from mothtrap.core.replays import ReplayResult
from mothtrap.core.snapshots import ReferenceDigests
from mothtrap.snapshot.code_locations import CodeLocations
from mothtrap.tracing.snapshots.comparison import compared, raised_at


class Comparison:
    """Compares the step in progress with the recorded result.

    Args:
        step: results of the step in progress.
        optimizers: optimizers with the names of their parameters.
        expected: None if the run did not record results.
        places: maps locations in a script that was changed after the run.
    """

    def __init__(
        self,
        step: StepDigests,
        optimizers: OptimizerObserver,
        expected: ReferenceDigests | None,
        places: CodeLocations | None = None,
    ) -> None:
        self._step, self._optimizers, self._expected = step, optimizers, expected
        self._places = places or CodeLocations()

    def result(self, *, error: BaseException | None = None) -> ReplayResult:
        """Return the result of the step so far; `error` is the exception that ended it."""
        every = [optimizer for _, optimizer in self._optimizers.alive()]
        text = f"{type(error).__name__}: {error}" if error is not None else None
        found = self._step.report(every, exception=text)
        losses = tuple(float(loss) for loss in self._step.losses().values())
        bad = self._nonfinite_gradients(every)
        result = compared(found, self._expected_of(found), losses, bad)
        if error is None:
            return result
        return msgspec.structs.replace(result, raised_at=raised_at(error))

    def _expected_of(self, found: ReferenceDigests) -> ReferenceDigests | None:
        """Return the expected digests, with the losses at their current locations in the script."""
        expected = self._expected
        if expected is None:
            return None
        losses = self._places.renamed(expected.losses, found.losses)
        return msgspec.structs.replace(expected, losses=losses)

    def expects_nothing(self) -> None:
        """Expect no digests, because they belong to another worker."""
        self._expected = None

    def _nonfinite_gradients(self, every: Sequence[Optimizer]) -> tuple[str, ...]:
        names = {}
        expected = self._expected.gradients if self._expected is not None else {}
        for optimizer in every:
            for parameter in parameters(optimizer):
                name = self._optimizers.name_of(parameter)[0]
                # Gradients of other optimizers may be left over from other steps.
                if parameter.grad is None or (expected and name not in expected):
                    continue
                gradient = parameter.grad
                values = gradient._values() if gradient.is_sparse else gradient
                if not bool(torch.isfinite(values).all()):
                    names[name] = True
        return tuple(names)
