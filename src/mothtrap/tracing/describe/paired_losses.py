"""Facts about losses of pairs, whose labels are signs."""

from __future__ import annotations

from typing import Any

from mothtrap.core.facts.losses import LossCall, TargetSample


def pairs(function: str, target: tuple[int, ...], sample: TargetSample, **about: Any) -> LossCall:
    """Return the fact for a loss of pairs, whose labels are signs.

    Args:
        function: its name.
        target: shape of the labels.
        sample: the labels.
        about: other fields.
    """
    return LossCall(
        operation=function, function=function, target_shape=target, targets=sample, **about
    )
