"""States that a restarted job does not restore, shared by the rules on them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.workers import OptimizersNotRestored, Resumed, WeightsNotRestored
from mothtrap.core.window import Floats, Series, Window

LostT = TypeVar("LostT", OptimizersNotRestored, WeightsNotRestored)


def lost_on_restart(window: Window, kind: type[LostT], steps: int) -> tuple[LostT, str] | None:
    """Return the first lost state after at least `steps` steps, and its optimizers in words.

    Raises:
        NotApplicable: The job was not restarted.
    """
    if next(window.seen(Resumed), None) is None:
        raise NotApplicable("the job was not restarted")
    lost = next((one for one in window.seen(kind) if one.step >= steps), None)
    return (lost, " and ".join(dict.fromkeys(lost.optimizers))) if lost is not None else None


def first_values(series: Series, step: int, number: int) -> Floats:
    """Return the first values from `step` on, at most `number`; empty if they left the window."""
    own_S = series.steps_S >= step
    if len(series.early_S) >= number and not len(series.steps_S[~own_S]):
        return series.early_S[:number]
    steps_S, values_S = series.steps_S[own_S], series.values_S[own_S]
    if not len(steps_S) or steps_S[0] > step + number:
        return np.empty(0)
    return values_S[:number]
