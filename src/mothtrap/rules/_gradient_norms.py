"""Gradient norms of optimizers, measured before clipping if possible."""

from __future__ import annotations

import numpy as np

from mothtrap.core.facts.optimizers import ClippedLate
from mothtrap.core.window import Floats, Ints, Window
from mothtrap.rules import _patterns


def gradient_norms(window: Window) -> list[tuple[str, Ints, Floats]]:
    """Return (optimizer, steps, norms) of the applied steps with a finite norm above 0."""
    return window.once(_gradient_norms)


def _gradient_norms(window: Window) -> list[tuple[str, Ints, Floats]]:
    skipped = window.steps_S[window.skipped_S]
    found = []
    for series in window.scalars("gradient_norm"):
        good = np.isfinite(series.values_S) & ~np.isin(series.steps_S, skipped)
        if good.any():
            found.append((series.of, series.steps_S[good], series.values_S[good]))
    return found or _captured_norms(window)


def _captured_norms(window: Window) -> list[tuple[str, Ints, Floats]]:
    """Return norms of captured gradients, for each set of tensors that steps together."""
    norms = window.matrix("gradient", "l2")
    if norms is None or not len(norms):
        return []
    found = []
    for pattern_T, rows in _patterns.alike(norms):
        norm_S = np.sqrt(np.square(norms.values_ST[rows][:, pattern_T]).sum(axis=1))
        finite = np.isfinite(norm_S)
        if finite.any():
            found.append(("", norms.steps_S[rows][finite], norm_S[finite]))
    return found


def clipping_limit(window: Window) -> float | None:
    """Return the latest clipping threshold of a norm; None if gradients are not clipped."""
    limits = [s for s in window.scalars("clip_limit") if len(s)]
    return float(limits[0].values_S[-1]) if limits and late_clipping(window) is None else None


def late_clipping(window: Window) -> ClippedLate | None:
    """Return the latest record of an optimizer whose gradients are clipped only after its steps."""
    newest = {seen.optimizer: seen for seen in window.seen(ClippedLate)}
    return next((s for s in newest.values() if not s.timely_steps), None)
