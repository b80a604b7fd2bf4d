"""Losses and learning rates of steps that were not observed, stored in facts instead of records.

Shape suffix: N = steps.
"""

from __future__ import annotations

import numpy as np

from mothtrap.core.packed_floats import unpacked
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Ints
from mothtrap.reader.files.parts import Part
from mothtrap.reader.files.worker_view import ScalarName


def unwatched_rows(part: Part, scalar: ScalarName) -> tuple[Ints, Floats]:
    """Return the steps and values of a scalar at unobserved steps, ascending.

    Args:
        part: one worker in one attempt.
        scalar: name, owner and mode; only losses and learning rates of training have values.
    """
    name, of, mode = scalar
    if mode != Mode.TRAIN or name not in ("loss", "lr"):
        return np.empty(0, np.int64), np.empty(0)
    steps, values = [np.empty(0, np.int64)], [np.empty(0)]
    for fact in part.view.unwatched:
        owner, text = (fact.loss_of, fact.losses) if name == "loss" else (fact.rate_of, fact.rates)
        if text and owner == of:
            steps.append(np.arange(fact.step, fact.last_step + 1))
            values.append(unpacked(text, fact.count))
    step_N, value_N = np.concatenate(steps), np.concatenate(values)
    end = min(part.bounds.end, part.redone.train)
    keep_N = (step_N >= part.bounds.begin) & (step_N < end) & ~np.isnan(value_N)
    return step_N[keep_N], value_N[keep_N]


def with_unwatched(
    part: Part, scalar: ScalarName, step_N: Ints, value_N: Floats
) -> tuple[Ints, Floats]:
    """Return the rows of a scalar, including the rows of unobserved steps, in order."""
    more_N, values_N = unwatched_rows(part, scalar)
    if not len(more_N):
        return step_N, value_N
    every_N = np.concatenate([step_N, more_N])
    order_N = np.argsort(every_N, kind="stable")
    return every_N[order_N], np.concatenate([value_N, values_N])[order_N]
