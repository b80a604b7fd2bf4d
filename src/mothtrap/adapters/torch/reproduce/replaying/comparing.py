"""Compare a replayed step with the recorded one, bit by bit."""

from __future__ import annotations

import math
import os
import re
import traceback
from collections.abc import Sequence

import msgspec
import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.adapters.torch.reproduce.snapshots.reference_digests import StepDigests
from mothtrap.core.replays import Difference, ReplayResult
from mothtrap.core.snapshots import ReferenceDigests
from mothtrap.snapshot.code_locations import CodeLocations
from mothtrap.tracing import frames

MAX_GRADIENTS = 32
"""Parameters named whose gradients are not finite."""
_NUMBERED = re.compile(r"out of memory|can't allocate|\bpid\b", re.IGNORECASE)


class Comparison:
    """Compares the step in progress with the truth of the run.

    Args:
        step: tells what the step in progress comes to.
        optimizers: know the parameters.
        expected: None where the run does not say.
        places: tells where its losses lie in a script that was changed since.
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
        found = self._step.tell(every, exception=text)
        losses = tuple(float(loss) for loss in self._step.losses().values())
        bad = self._nonfinite_gradients(every)
        result = compared(found, self._expected_of(found), losses, bad)
        if error is None:
            return result
        return msgspec.structs.replace(result, raised_at=raised_at(error))

    def _expected_of(self, found: ReferenceDigests) -> ReferenceDigests | None:
        """Return the expected digests, with losses under their places in the script today."""
        expected = self._expected
        if expected is None:
            return None
        losses = self._places.renamed(expected.losses, found.losses)
        return msgspec.structs.replace(expected, losses=losses)

    def expects_nothing(self) -> None:
        """Expect nothing: the run's digests belong to another worker."""
        self._expected = None

    def _nonfinite_gradients(self, every: Sequence[Optimizer]) -> tuple[str, ...]:
        names = {}
        expected = self._expected.gradients if self._expected is not None else {}
        for optimizer in every:
            for parameter in parameters(optimizer):
                name = self._optimizers.name_of(parameter)[0]
                # Those of others may be left over from other steps.
                if parameter.grad is None or (expected and name not in expected):
                    continue
                gradient = parameter.grad
                values = gradient._values() if gradient.is_sparse else gradient
                if not bool(torch.isfinite(values).all()):
                    names[name] = True
        return tuple(names)


def compared(
    found: ReferenceDigests,
    expected: ReferenceDigests | None,
    losses: tuple[float, ...],
    bad: tuple[str, ...],
) -> ReplayResult:
    """The result of a step.

    Args:
        found: what it came to.
        expected: in the run; None where that does not say.
        losses: of its backwards, in order.
        bad: parameters whose gradients are not finite.
    """
    expected = expected or ReferenceDigests()
    count = len(expected.losses) + len(expected.gradients)
    known = count > 0 or expected.exception is not None
    difference = first_difference(found, expected) if known else None
    return ReplayResult(
        reached=True,
        match=difference is None if known else None,
        compared=count,
        losses_compared=len(expected.losses),
        difference=difference,
        losses=losses,
        nonfinite=bool(bad) or not all(map(math.isfinite, losses)),
        nonfinite_gradients=bad[:MAX_GRADIENTS],
        exception=found.exception,
        notes=() if known else ("the run kept no digests to compare with",),
    )


def first_difference(found: ReferenceDigests, expected: ReferenceDigests) -> Difference | None:
    """The first loss, then gradient, then exception that is not what is expected."""
    if _without_numbers(found.exception) != _without_numbers(expected.exception):
        return Difference(
            kind="exception",
            name="exception",
            found=found.exception,
            expected=expected.exception,
        )
    for site, digest in expected.losses.items():
        if found.losses.get(site) != digest:
            return Difference(kind="loss", name=site, found=found.losses.get(site), expected=digest)
    for name, digest in expected.gradients.items():
        if found.gradients.get(name) != digest:
            return Difference(
                kind="gradient", name=name, found=found.gradients.get(name), expected=digest
            )
    return None


def _without_numbers(exception: str | None) -> str | None:
    """The text of an exception; of one that names what is free, or a process, without that."""
    if exception is None or not _NUMBERED.search(exception):
        return exception
    return re.sub(r"[\d.]+ ?[KMGT]?i?B?", "N", exception)


def raised_at(error: BaseException) -> str | None:
    """The innermost line of the user's code that an exception passed."""
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frames.is_users(frame):
            place = frames.line_of(os.path.abspath(frame.f_code.co_filename), line)
    return place
