"""Steps in which the norm of a gradient grows without bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Floats, Window
from mothtrap.rules._losses import NEGLIGIBLE
from mothtrap.rules._onset import rise_begins
from mothtrap.rules._stretches import stretches

HISTORY_STEPS = 10
"""Steps an optimizer needs before its gradient norm has a baseline; chosen by hand."""

EBB_STEPS, EBB_JUMP = 10, 10.0
"""Steps within which a gradient falls again if one batch caused it to jump by this factor; chosen
by hand."""

SETTLING_STEPS = 3
"""Steps after a growth of the norm that show whether it falls again; chosen by hand."""

FLOOR_RATIO = 0.01
"""The baseline is at least this share of the norm in the first steps; chosen by hand."""

MAX_CANDIDATES = 200
"""Most steps compared with their baseline, to bound the cost; chosen by hand."""

LAYERS_NAMED = 10
"""Most layers that a finding names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explosion:
    """Steps in which the gradient norm of an optimizer grows.

    Attributes:
        onset: index of the first of these norms.
        last: index of the last.
        reference: the norm before.
        loss_ratio: rise of the loss that makes it an error.
        lasting: found by its level, not by its growth.
    """

    onset: int
    last: int
    reference: float
    loss_ratio: float
    lasting: bool


def level(norm_S: Floats, persisting: int, limit: float) -> Explosion | None:
    """Find the first consecutive steps that are far above the baseline, the earlier median.

    Args:
        norm_S: gradient norms.
        persisting: number of these steps.
        limit: ratio to the baseline.
    """
    if len(norm_S) < HISTORY_STEPS + persisting:
        return None
    floor = FLOOR_RATIO * float(np.median(norm_S[:HISTORY_STEPS]))
    lowest = max(float(norm_S.min()), floor)
    if lowest <= 0 or norm_S.max() < limit * lowest:
        return None
    # The minimum over `persisting` steps ignores a short spike.
    lasting_S = sliding_window_view(norm_S, persisting).min(axis=1)
    reaching = np.flatnonzero(lasting_S >= limit * lowest)
    for index in reaching[reaching >= HISTORY_STEPS][:MAX_CANDIDATES].tolist():
        reference = max(float(np.median(norm_S[:index])), floor)
        certain = _certain(norm_S, index, reference)
        if lasting_S[index] >= limit * reference and not _only_falls(norm_S, certain):
            return Explosion(
                onset=rise_begins(np.maximum(norm_S, floor), certain),
                last=index + persisting - 1,
                reference=reference,
                loss_ratio=1.5,
                lasting=True,
            )
    return None


def growth(
    norm_S: Floats,
    *,
    factor: float,
    total: float,
    steps: int,
    is_over: Callable[[int], bool] = lambda _: False,
) -> Explosion | None:
    """Find consecutive steps that each multiply the norm; needs no baseline.

    Args:
        norm_S: gradient norms.
        factor: growth from one step to the next.
        total: growth in more than two steps; two steps need its square.
        steps: least number of steps.
        is_over: returns whether training has recovered from a growth that ended at an index.
    """
    if norm_S.max() < total * norm_S.min():
        return None
    growing_S = norm_S[1:] >= factor * norm_S[:-1]
    for begin, stop in stretches(growing_S & (norm_S[:-1] > 0)):
        grown = float(norm_S[stop] / norm_S[begin])
        # A shorter rise must be larger: 1e3 over three steps, 1e6 over two.
        needed = total if stop - begin > 2 else total**2
        if stop - begin >= steps and grown >= needed and not is_over(stop):
            return Explosion(
                onset=begin + 1,
                last=stop,
                reference=float(norm_S[begin]),
                loss_ratio=10.0,
                lasting=False,
            )
    return None


def _only_falls(norm_S: Floats, index: int) -> bool:
    """Return whether a norm that jumped in one step has only fallen since, like a spike."""
    tail_S = norm_S[index : index + EBB_STEPS]
    jumped = norm_S[index] >= EBB_JUMP * norm_S[index - 1]
    falls = np.median(tail_S[-3:]) < tail_S[0] and tail_S.max() <= 1.05 * tail_S[0]
    return bool(jumped and falls)


def has_ebbed(norm_S: Floats, last: int) -> bool:
    """Return whether a norm has fallen again within a few steps after it grew."""
    tail_S = norm_S[last + 1 : last + 1 + EBB_STEPS]
    if len(tail_S) < SETTLING_STEPS:
        return False
    return bool(np.median(tail_S[-SETTLING_STEPS:]) < norm_S[last] / EBB_JUMP)


def _certain(norm_S: Floats, index: int, reference: float) -> int:
    """Return the start of the steps before `index` that are all clearly above the baseline."""
    below = np.flatnonzero(norm_S[:index] <= 10 * reference)
    return int(below[-1]) + 1 if len(below) else index


def losses_around(
    window: Window, optimizer: str, since: int, until: int
) -> tuple[float | None, float | None]:
    """Return the median loss of the 20 steps before an explosion, and of its last 3 steps."""
    for series in window.scalars("loss"):
        if optimizer and series.optimizers and optimizer not in series.optimizers:
            continue
        before_S = series.values_S[series.steps_S < since][-20:]
        before_S = before_S[np.isfinite(before_S)]
        if not len(before_S):
            before_S = series.values_S[series.steps_S == since]
        after_S = series.values_S[(series.steps_S > since) & (series.steps_S <= until + 1)][-3:]
        if min(before_S.min(initial=0), after_S.min(initial=0)) < 0:
            return None, None  # ratios are meaningless for losses that change sign
        if len(before_S) and float(np.median(before_S)) < NEGLIGIBLE:
            return None, None  # and for a loss near 0
        if len(before_S) and len(after_S):
            after = float(np.median(after_S)) if np.isfinite(after_S).all() else np.inf
            return float(np.median(before_S)), after
    return None, None


def growing_layers(window: Window, since: int, until: int) -> list[TensorInfo]:
    """Return the gradients that grew most in an explosion."""
    norms = window.matrix("gradient", "l2")
    if norms is None:
        return []
    before = norms.values_ST[norms.steps_S < since][-50:]
    during = norms.values_ST[(norms.steps_S >= since) & (norms.steps_S <= until)]
    if not len(before):
        before = during[:1]
    growth = []
    for column, tensor in enumerate(norms.tensors):
        early, late = (part[:, column][np.isfinite(part[:, column])] for part in (before, during))
        if len(early) and len(late):
            growth.append((float(late.max()) / max(float(np.median(early)), 1e-30), tensor))
    growth.sort(key=lambda pair: -pair[0])
    return [tensor for ratio, tensor in growth[:LAYERS_NAMED] if ratio > 1]
