from __future__ import annotations

import math

import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.outlying_targets import outlying_targets

ROWS = 32
STEPS = range(0, 80, 10)


def call(step: int, extreme: float | None, *, shape: tuple[int, ...] = (ROWS, 1)) -> LossCall:
    values = np.random.default_rng(step).normal(size=ROWS)
    if extreme is not None:
        values[0] = extreme
    return LossCall(
        step=step,
        operation="elementwise",
        series=LOSS,
        reduction="mean",
        target_shape=shape,
        location="train.py:9",
        targets=TargetSample(
            dtype="float32",
            count=ROWS,
            least=float(values.min()),
            greatest=float(values.max()),
            mean=float(values.mean()),
            std=float(values.std()),
        ),
    )


def check(
    extremes: list[float | None], *, of_row: float = 1.0, shape: tuple[int, ...] = (ROWS, 1)
) -> list[Finding]:
    """Check losses that are `of_row` times the squared error of the extreme rows."""
    values = np.ones(80)
    for step, extreme in zip(STEPS, extremes, strict=False):
        values[step] = 1 + of_row * (extreme or 0) ** 2 / ROWS
    calls = [call(s, e, shape=shape) for s, e in zip(STEPS, extremes, strict=False)]
    return outlying_targets().check(window(loss(values), *calls))


def test_single_rows_that_are_the_loss_of_their_batches() -> None:
    [finding] = check([None, 900.0, None, -400.0, None])
    assert (finding.severity, finding.step, finding.last_step) == (Severity.WARNING, 0, 30)
    assert finding.location == "train.py:9"
    assert "in 2 of 5 sampled batches" in finding.message
    assert "such as 900" in finding.message
    assert finding.fixes[0].startswith("Look at these rows")


def test_a_number_that_stands_for_missing_values_is_named_in_the_fix() -> None:
    [finding] = check([-999.0, None, -999.0])
    assert "targets != -999" in finding.fixes[0]


@pytest.mark.parametrize(
    "extremes",
    [[None] * 5, [20.0] * 5, [900.0, None, None, None]],
    ids=["none", "near", "once"],
)
def test_stays_quiet(extremes: list[float | None]) -> None:
    assert check(extremes) == []


def test_rows_that_are_predicted_or_whose_loss_is_absolute_do_not_count() -> None:
    assert check([900.0, None, 900.0], of_row=0.1) == []
    assert check([900.0, None, 900.0], of_row=1 / 900) == []


def test_several_numbers_per_row_are_not_judged() -> None:
    with pytest.raises(NotEnoughData):
        check([900.0] * 4, shape=(8, 4))


def test_equal_targets_beside_the_extreme_one_are_not_judged() -> None:
    sparse = TargetSample(
        dtype="float32",
        count=ROWS,
        least=0.0,
        greatest=1.0,
        mean=1 / ROWS,
        std=math.sqrt(1 / ROWS - 1 / ROWS**2),
    )
    calls = [
        LossCall(
            step=step,
            operation="elementwise",
            series=LOSS,
            reduction="mean",
            target_shape=(ROWS,),
            targets=sparse,
        )
        for step in STEPS
    ]
    assert outlying_targets().check(window(loss(np.full(80, 1 / ROWS)), *calls)) == []


def test_targets_that_the_model_makes_are_not_judged() -> None:
    moves = BootstrappedTargets(step=0, module="net", steps=20)
    with pytest.raises(NotApplicable):
        outlying_targets().check(window(loss(np.ones(80)), call(0, 900.0), moves))
    with pytest.raises(NotApplicable):
        outlying_targets().check(
            window(loss(np.ones(80)), LossCall(step=0, operation="cross_entropy"))
        )
