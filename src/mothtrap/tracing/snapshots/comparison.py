"""Compare a replayed step with the recorded step."""

from __future__ import annotations

import math
import re
import traceback
from typing import Literal

from mothtrap.core.replays import Difference, ReplayResult
from mothtrap.core.snapshots import ReferenceDigests
from mothtrap.core.working_folder import absolute
from mothtrap.tracing.source import frames

MAX_GRADIENTS = 32
"""Maximum number of named parameters with non-finite gradients."""
_NUMBERED = re.compile(r"out of memory|can't allocate|\bpid\b", re.IGNORECASE)


def compared(
    found: ReferenceDigests,
    expected: ReferenceDigests | None,
    losses: tuple[float, ...],
    bad: tuple[str, ...],
) -> ReplayResult:
    """Return the result of a step.

    Args:
        found: result of the replay.
        expected: result of the run; None if it was not recorded.
        losses: losses of its backward passes, in order.
        bad: parameters with non-finite gradients.
    """
    expected = expected or ReferenceDigests()
    count = len(expected.losses) + len(expected.gradients) + len(expected.weights)
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
    """Return the first unexpected exception, loss, gradient or new weight."""
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
    of_tensors: tuple[tuple[Literal["gradient", "weight"], dict[str, str], dict[str, str]], ...] = (
        ("gradient", found.gradients, expected.gradients),
        ("weight", found.weights, expected.weights),
    )
    for kind, here, there in of_tensors:
        for name, digest in there.items():
            if here.get(name) != digest:
                return Difference(kind=kind, name=name, found=here.get(name), expected=digest)
    return None


def _without_numbers(exception: str | None) -> str | None:
    """Return the text of an exception without process ids and amounts of free memory."""
    if exception is None or not _NUMBERED.search(exception):
        return exception
    return re.sub(r"[\d.]+ ?[KMGT]?i?B?", "N", exception)


def raised_at(error: BaseException) -> str | None:
    """Return the innermost line of the user's code in an exception's traceback."""
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frames.is_users(frame):
            place = frames.line_of(absolute(frame.f_code.co_filename), line)
    return place
