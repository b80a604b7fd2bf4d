"""Norms of the gradients of optimizers, before clipping where that was seen."""

from __future__ import annotations

import numpy as np

from mothtrap.core.window import Bools, Floats, Ints, Window


def gradient_norms(window: Window) -> list[tuple[str, Ints, Floats]]:
    """Return (optimizer, steps, norms) of the applied steps with a finite norm above 0."""
    skipped = window.steps_S[window.skipped_S]
    found = []
    for series in window.scalars("gradient_norm"):
        good = np.isfinite(series.values_S) & ~np.isin(series.steps_S, skipped)
        if good.any():
            found.append((series.of, series.steps_S[good], series.values_S[good]))
    return found or _captured_norms(window)


def _captured_norms(window: Window) -> list[tuple[str, Ints, Floats]]:
    """Return norms from captured gradients, apart for each set of tensors that steps."""
    norms = window.matrix("gradient", "l2")
    if norms is None or not len(norms):
        return []
    found = []
    usable_S: Bools = norms.present_ST.any(axis=1) & ~norms.skipped_S
    for pattern_T in np.unique(norms.present_ST[usable_S], axis=0):
        rows = np.flatnonzero(usable_S & (norms.present_ST == pattern_T).all(axis=1))
        norm_S = np.sqrt(np.square(norms.values_ST[rows][:, pattern_T]).sum(axis=1))
        finite = np.isfinite(norm_S)
        if finite.any():
            found.append(("", norms.steps_S[rows][finite], norm_S[finite]))
    return found


def clipping_limit(window: Window) -> float | None:
    """Return the norm to which gradients are clipped, the latest; None where they are not."""
    limits = [s for s in window.scalars("clip_limit") if len(s)]
    return float(limits[0].values_S[-1]) if limits else None
