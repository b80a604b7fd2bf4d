"""Loss calls for tests, with arrays on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from mothtrap.tracing.describe.loss_numbers import Called

RNG = np.random.default_rng(0)


def called(target: Any, prediction: Any, operation: str = "cross_entropy", **more: Any) -> Called:
    return Called(
        operation=operation,
        chain=more.get("chain", ("linear",)),
        classes=more.get("classes", 3),
        target=np.asarray(target),
        prediction=np.asarray(prediction, dtype=float),
    )


def squared(target: Any, chain: tuple[str, ...] = ("linear",)) -> Called:
    target = np.asarray(target, dtype=float)
    return called(target, np.zeros_like(target), "elementwise", chain=chain, classes=None)


CLASSES = called([0, 0, 2, 1], np.eye(3)[[0, 1, 2, 1]])
BINARY = called([[0], [1], [1]], [[0.2], [0.9], [0.4]], "binary_cross_entropy", classes=2)
