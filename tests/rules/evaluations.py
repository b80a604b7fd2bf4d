"""Evaluations made by hand, for the tests of rules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.steps import Mode

SERIES = "train.py:10 Adam"
PLACE = "train.py:20"


def evaluations(
    values: Sequence[float] | np.ndarray,
    train: Sequence[float] | np.ndarray | None = None,
    *,
    every: int = 10,
    guess: float | None = None,
    rows: int = 200,
    site: str = PLACE,
) -> list[Evaluation]:
    """One evaluation after each `every` steps, with the mean training loss before it."""
    found: list[Evaluation] = []
    best, best_step = math.inf, 0
    for number, value in enumerate(values):
        step = every * (number + 1)
        if value < best:
            best, best_step = float(value), step
        found.append(
            Evaluation(
                step=step,
                mode=Mode.EVAL,
                site=site,
                operation="mse_loss",
                value=float(value),
                calls=1,
                rows=rows,
                number=number,
                first=float(values[0]),
                best=best,
                best_step=best_step,
                location=PLACE,
                guess=guess,
                train_losses={} if train is None else {SERIES: float(train[number])},
            )
        )
    return found
