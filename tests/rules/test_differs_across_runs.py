from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.rules.windows import gradients, loss, noise, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.differs_across_runs import DiffersAcrossRuns

LOSSES = 2.0 + noise(60, scale=0.1)
NORMS = {"a.weight": 1.0 + noise(60, scale=0.1, seed=1), "b.weight": np.ones(60)}


def check(mine: Window, reference: Window, **thresholds: float | str) -> list[Finding]:
    return DiffersAcrossRuns(**thresholds).check(dataclasses.replace(mine, reference=reference))


def diverged(values: np.ndarray, step: int, by: float = 0.1) -> np.ndarray:
    return np.where(np.arange(len(values)) < step, values, values * (1 + by))


def test_names_the_first_step_and_tensor_that_differ() -> None:
    norms = NORMS | {"b.weight": diverged(NORMS["b.weight"], 20)}
    mine = window(loss(diverged(LOSSES, 21)), gradients("l2", norms))
    [finding] = check(mine, window(loss(LOSSES), gradients("l2", NORMS)))
    assert (finding.severity, finding.step, finding.layers) == (Severity.WARNING, 20, ("b.weight",))
    assert (finding.last_step, finding.count) == (59, 40)
    assert finding.message == "the gradient norm of b.weight is 1.1, but 1 in the reference"


def test_names_the_loss_where_that_differs_first() -> None:
    [finding] = check(window(loss(diverged(LOSSES, 5))), window(loss(LOSSES)))
    assert (finding.step, finding.layers, finding.location) == (5, (), "train.py:10")


def test_the_line_of_the_only_loss_may_have_moved() -> None:
    moved = window(loss(diverged(LOSSES, 5), of="train.py:12"))
    assert [f.step for f in check(moved, window(loss(LOSSES)))] == [5]


def test_a_value_that_is_no_number_in_one_run_alone_differs() -> None:
    broken = LOSSES.copy()
    broken[30] = np.nan
    assert [f.step for f in check(window(loss(broken)), window(loss(LOSSES)))] == [30]
    assert check(window(loss(broken)), window(loss(broken))) == []


@pytest.mark.parametrize(
    "same",
    [LOSSES, LOSSES * (1 + 1e-5), LOSSES[:30]],
    ids=["equal", "rounding", "a shorter reference"],
)
def test_stays_quiet_where_it_is_the_same(same: np.ndarray) -> None:
    mine = window(loss(LOSSES), gradients("l2", NORMS))
    assert check(mine, window(loss(same), gradients("l2", NORMS))) == []


def test_tolerance_and_tensors_can_be_set() -> None:
    norms = NORMS | {"b.weight": diverged(NORMS["b.weight"], 20)}
    two = window(gradients("l2", norms)), window(gradients("l2", NORMS))
    assert check(*two, tensors="a.*") == []
    assert check(*two, tolerance=0.2) == []
    assert len(check(*two, tensors="b.*", tolerance=0.05)) == 1


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no reference"):
        DiffersAcrossRuns().check(window(loss(LOSSES)))
    with pytest.raises(NotEnoughData, match="both runs recorded"):
        check(window(loss(LOSSES)), window(loss(LOSSES, steps=np.arange(100, 160))))
