"""Windows made by hand show the values that were put into them."""

from __future__ import annotations

import math

import numpy as np

from mothtrap.core.facts.workers import Resumed
from mothtrap.core.steps import Mode
from mothtrap.testing.windows import loss, series, statistic, window


def test_a_window_shows_its_parts() -> None:
    seen = window(loss([2.0, 1.0, math.nan]), series("lr", [0.1], of="Adam"), skipped=(1,))
    [losses] = seen.scalars("loss")
    assert (losses.total, losses.first, losses.location) == (3, 2.0, "train.py:10")
    assert math.isnan(losses.values_S[-1])
    assert (seen.total_steps, seen.last_step) == (3, 2)
    assert seen.skipped_S.tolist() == [False, True, False]
    assert [s.of for s in seen.scalars("lr")] == ["Adam"]


def test_a_statistic_may_lack_rows() -> None:
    norms = statistic(
        "gradient", "l2", {"a.b.weight": [1.0, None], "c": [3.0, 4.0]}, steps=[5, 9], skipped=[9]
    )
    assert [t.module for t in norms.tensors] == ["a.b", ""]
    assert norms.present_ST.tolist() == [[True, True], [False, True]]
    assert np.isnan(norms.values_ST[1, 0])
    assert norms.skipped_S.tolist() == [False, True]
    seen = window(norms, Resumed(step=30, evidence="x"))
    assert seen.matrix("gradient", "l2") is norms
    assert seen.matrix("gradient", "l2", Mode.EVAL) is None
    assert seen.last_step == 30


def test_a_window_may_be_empty() -> None:
    seen = window(steps=0)
    assert (seen.last_step, seen.total_steps) == (-1, 0)
