"""Capture of gradients passed to Keras optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mothtrap.adapters.keras import optimizers
from mothtrap.adapters.keras.optimizers import Clipping
from mothtrap.adapters.keras.weights import Weights
from mothtrap.adapters.tensorflow.probes.probes import Applied
from mothtrap.core.adapters import Job


class Gradients:
    """Captures the gradients of steps, or their norms.

    Args:
        job: receives the arrays.
        weights: maps variables to tensors.
    """

    def __init__(self, job: Job, weights: Weights) -> None:
        self._job, self._weights = job, weights

    def take(self, applied: Applied) -> None:
        """Capture the gradients passed to an optimizer in a step, if they are requested."""
        job = self._job
        if applied.gradients is None:
            return
        clip = optimizers.clipping(applied.optimizer)
        is_light = not job.is_full()
        if not job.wants("gradient") and (clip is None or (is_light and applied.squares is None)):
            return
        pairs = applied.pairs()
        if is_light and applied.scaled and any(slot.tensor is None for _, slot in pairs):
            return  # programs store scaled gradients in full steps only
        ids = [self._weights.tensor("gradient", variable) for variable, _ in pairs]
        if is_light and applied.squares is not None:
            found = applied.half_squares()
            if found is not None:
                self._norms(applied, ids, np.sqrt(2 * found.astype(np.float64)), clip)
                return
        scale = optimizers.loss_scale(applied.optimizer) if applied.scaled else 1.0
        arrays = [slot.read() for _, slot in pairs]
        if scale != 1.0:
            arrays = [array / array.dtype.type(scale) for array in arrays]
        job.take("gradient", ids, arrays)
        squares = [np.square(array, dtype=np.float64).sum() for array in arrays] if clip else []
        self._clipped(applied, np.sqrt(squares), clip)

    def _norms(
        self, applied: Applied, ids: Sequence[int], norms: Any, clip: Clipping | None
    ) -> None:
        """Capture the norms of finite gradients, as computed by the program."""
        for number, norm in zip(ids, norms.tolist(), strict=True):
            self._job.add_row(number, {"l2": norm, "nan": 0.0, "inf": 0.0})
        self._clipped(applied, norms, clip)

    def _clipped(self, applied: Applied, norm_N: Any, clip: Clipping | None) -> None:
        if clip is not None and len(norm_N):
            name = applied.optimizer.name
            self._job.scalar("gradient_norm", name, clip.norm_of(norm_N))
            self._job.scalar("clip_limit", name, clip.limit)
