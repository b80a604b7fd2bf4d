from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, noise, series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.stuck_at_chance import StuckAtChance

N = 260
EVEN = (8,) * 10
CHANCE = math.log(10) + noise(N, scale=0.03)


def calls(
    counts: tuple[int, ...] | None = EVEN,
    spread: float | None = 0.0,
    count: int = N,
    series: str = LOSS,
) -> list[LossCall]:
    return [
        LossCall(
            step=step,
            operation="cross_entropy",
            series=series,
            classes=10,
            label_counts=counts,
            prediction_spread=spread,
        )
        for step in range(0, count, 8)
    ]


def check(values: np.ndarray, observed: list[LossCall], *more: object) -> list[Finding]:
    return StuckAtChance().check(window(loss(values), *observed, *more))


def test_fires_when_all_predictions_are_the_same() -> None:
    [finding] = check(CHANCE, calls())
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.location == LOSS
    assert finding.evidence["classes"] == 10


@pytest.mark.parametrize("spread", [0.02, None])
def test_only_warns_when_predictions_vary_or_were_not_seen(spread: float | None) -> None:
    [finding] = check(CHANCE, calls(spread=spread))
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize("counts", [(1,) * 10, (10, *[0] * 9)])
def test_rows_that_do_not_find_their_partners_are_a_warning(counts: tuple[int, ...]) -> None:
    square = [msgspec.structs.replace(call, prediction_shape=(10, 10)) for call in calls(counts)]
    [finding] = check(CHANCE, square)
    assert finding.severity is Severity.WARNING
    assert finding.fixes[0].startswith("Check that both views of a row come from the same example")


def test_a_batch_with_as_many_rows_as_classes_has_no_partners() -> None:
    square = [msgspec.structs.replace(call, prediction_shape=(10, 10)) for call in calls()]
    [finding] = check(CHANCE, square)
    assert finding.fixes[0].startswith("Look at some rows")


LONG = math.log(10) + noise(500, scale=0.03)


def spreading(relative: np.ndarray) -> list[LossCall]:
    """Calls every 8 steps whose spread is this share of an even guess among 10."""
    return [
        msgspec.structs.replace(call, prediction_spread=float(relative[call.step]) / 10)
        for call in calls(count=len(relative))
    ]


def test_nearly_constant_predictions_are_an_error_when_they_stay_so() -> None:
    still = spreading(np.full(500, 2e-3) * np.exp(noise(500, scale=0.06)))
    [early] = check(LONG[:300], still[:38])
    [late] = check(LONG, still)
    assert (early.severity, late.severity) == (Severity.WARNING, Severity.ERROR)


def test_predictions_that_begin_to_differ_are_no_error() -> None:
    [finding] = check(LONG, spreading(1e-3 * np.exp(np.arange(500) / 500)))
    assert finding.severity is Severity.WARNING


def test_knows_the_entropy_of_uneven_labels() -> None:
    counts = (90, 10)
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))
    [finding] = check(np.full(N, entropy), calls(counts))
    assert finding.evidence["guessing"] == pytest.approx(entropy)


def test_onset_is_the_first_step_of_the_stretch() -> None:
    values = np.concatenate([np.linspace(6, 3, 40), CHANCE])
    [finding] = check(values, calls(count=300))
    assert abs(finding.step - 40) <= 5


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(CHANCE * np.exp(-np.arange(N) / 100), id="learns"),
        pytest.param(CHANCE * (1 - 0.0001 * np.arange(N)), id="a plateau that falls slowly"),
        pytest.param(np.full(N, 3.5), id="far above chance"),
        pytest.param(np.concatenate([CHANCE[:150], CHANCE[:110] * 0.7]), id="left the plateau"),
    ],
)
def test_stays_quiet(values: np.ndarray) -> None:
    assert check(values, calls()) == []


def test_does_not_apply_when_a_call_has_one_class_only() -> None:
    real, fake = calls((0, 32)), calls((32, 0))
    with pytest.raises(NotApplicable, match="one class"):
        check(np.full(N, math.log(2)), [*real, *fake])


def test_does_not_apply_to_a_game() -> None:
    game = loss(CHANCE, of="gan.py:9", optimizers=("G",))
    with pytest.raises(NotApplicable, match="compete"):
        check(CHANCE, calls(), game)


def test_steps_without_a_learning_rate_do_not_count() -> None:
    with pytest.raises(NotEnoughData):
        check(CHANCE, calls(), series("lr", np.where(np.arange(N) < 150, 0.0, 0.1)))


def test_cannot_judge_without_labels_or_steps() -> None:
    with pytest.raises(NotEnoughData, match="labels"):
        check(CHANCE, calls(counts=None))
    with pytest.raises(NotEnoughData, match="150"):
        check(CHANCE[:100], calls(count=100))
    with pytest.raises(NotEnoughData, match="traced"):
        check(CHANCE, [])


def test_does_not_apply_to_regression() -> None:
    with pytest.raises(NotApplicable, match="class loss"):
        check(CHANCE, [LossCall(step=0, operation="elementwise", series=LOSS)])
    with pytest.raises(NotApplicable, match="not a class loss"):
        check(CHANCE, calls(series="other.py:1"))


def test_a_loss_that_falls_to_the_level_of_guessing_is_stuck() -> None:
    above = math.log(10) * np.linspace(1.07, 1.01, N)
    [finding] = check(above, calls(spread=0.02))
    assert finding.severity is Severity.WARNING


def test_stays_quiet_if_predictions_are_right_in_spite_of_the_loss() -> None:
    def with_predictions(table: np.ndarray) -> list[LossCall]:
        sample = TargetSample(dtype="int64", count=80, confusion=tuple(table.reshape(-1).tolist()))
        return [msgspec.structs.replace(call, targets=sample) for call in calls(spread=0.02)]

    assert check(CHANCE, with_predictions(np.diag([7] * 10))) == []  # strong label smoothing
    assert check(CHANCE, with_predictions(np.ones((10, 10), dtype=int))) != []
