from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, noise, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.optimizers import UpdateDirection
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.wrong_sign import WrongSign


def calls(*operations: str, steps: int = 3, series: str = LOSS) -> list[LossCall]:
    return [LossCall(step=s, operation=o, series=series) for s in range(steps) for o in operations]


def check(values, *operations: str, **options):
    return WrongSign().check(window(loss(values), *calls(*operations, **options)))


@pytest.mark.parametrize("operation", ["cross_entropy", "elementwise", "binary_cross_entropy"])
def test_fires_on_an_error_that_is_maximized(operation: str) -> None:
    [finding] = check(-2.3 * 1.1 ** np.arange(30), operation)
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 0, 30)
    assert finding.location == LOSS


def test_the_onset_is_the_first_loss_of_the_fall_below_zero() -> None:
    values = np.concatenate([np.linspace(2, 0.1, 20), -0.2 * 1.2 ** np.arange(20)])
    [finding] = check(values, "cross_entropy")
    assert finding.step == 20


@pytest.mark.parametrize(
    "healthy",
    [
        np.linspace(2.3, 0.0, 50),
        0.01 * noise(60),
        np.concatenate([np.full(20, 1.0), np.full(20, -0.1)]),
        np.concatenate([-(1.5 ** np.arange(10.0)), [1.0], np.full(4, -9.0)]),
    ],
    ids=["falls to 0", "around 0", "stays a little below", "comes back"],
)
def test_stays_quiet_where_it_does_not_fall_on(healthy: np.ndarray) -> None:
    assert check(healthy, "cross_entropy") == []


def test_a_player_of_a_game_may_turn_its_loss() -> None:
    falling = -(1.1 ** np.arange(30.0))
    players = (
        loss(falling, of="a.py:1", optimizers=("A",)),
        loss(-falling, of="a.py:2", optimizers=("B",)),
    )
    traced = calls("cross_entropy", series="a.py:1") + calls("cross_entropy", series="a.py:2")
    assert WrongSign().check(window(*players, *traced)) == []


def test_a_squared_error_beside_a_gain_that_is_maximized_may_be_negative() -> None:
    falling = loss(-(1.1 ** np.arange(30.0)))
    beside = LossCall(step=0, operation="elementwise", series=LOSS, alone=False)
    with pytest.raises(NotApplicable, match="several terms"):
        WrongSign().check(window(falling, beside))


def test_losses_of_single_rows_may_be_weighed_by_what_is_negative() -> None:
    falling = loss(-(1.1 ** np.arange(30.0)))
    options = {"step": 0, "operation": "cross_entropy", "series": LOSS, "reduction": "none"}
    for above in (("mean", "mul"), None):
        with pytest.raises(NotApplicable, match="may be negative"):
            WrongSign().check(window(falling, LossCall(above=above, **options)))
    [finding] = WrongSign().check(window(falling, LossCall(above=("neg", "mean"), **options)))
    assert finding.severity is Severity.ERROR


def test_the_micro_batches_of_a_step_are_one_loss() -> None:
    calls = [
        LossCall(step=step, operation="cross_entropy", series=LOSS, alone=True)
        for step in (0, 0, 1, 1)
    ]
    [finding] = WrongSign().check(window(loss(-(1.1 ** np.arange(30.0))), *calls))
    assert finding.step == 0


def test_says_why_it_cannot_judge() -> None:
    falling = -(1.1 ** np.arange(30.0))
    with pytest.raises(NotEnoughData, match="not traced"):
        check(falling)
    with pytest.raises(NotApplicable, match="several terms"):
        check(falling, "cross_entropy", "elementwise")
    with pytest.raises(NotApplicable, match="may be negative"):
        check(falling, "nll")
    with pytest.raises(NotEnoughData, match="needs 8 losses"):
        check(falling[:4], "cross_entropy")


def test_a_loss_of_any_kind_that_falls_below_every_scale_has_no_bound() -> None:
    values = [7e4, 2e4, -3e6, -4e12, -6e18, np.nan, np.nan]
    [finding] = WrongSign().check(window(loss(values)))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)  # what follows comes later
    assert finding.message == "the loss fell from 7e+04 to -6e+18 and has no lower bound"
    [finding] = WrongSign().check(window(loss([3.0, 4.0, 3.0, 5.0, 2.0, -3e4, -4e12, -6e18])))
    assert finding.step == 3


@pytest.mark.parametrize(
    "healthy",
    [
        np.linspace(3000.0, -12_000.0, 80),
        np.concatenate([[4.0, 1.0], -np.logspace(0, 3, 40)]),
        np.concatenate([[1.0, -5e4], np.linspace(2.0, 0.5, 20)]),
        np.array([2.0, 1e9, 3e9, 1e10]),
    ],
    ids=["likelihood of images", "returns of a policy", "one bad batch", "rises"],
)
def test_a_loss_that_may_be_negative_keeps_its_scale(healthy: np.ndarray) -> None:
    with pytest.raises(NotEnoughData):
        WrongSign().check(window(loss(healthy)))


def test_a_player_of_a_game_may_fall_without_bound() -> None:
    falling = -(10.0 ** np.arange(12.0))
    players = (
        loss(falling, of="a.py:1", optimizers=("A",)),
        loss(-falling, of="a.py:2", optimizers=("B",)),
    )
    with pytest.raises(NotEnoughData):
        WrongSign().check(window(*players))


def updates(*cosines: float, count: int = 8) -> list[UpdateDirection]:
    layers = tuple(f"{place}.weight" for place in range(len(cosines)))
    return [
        UpdateDirection(
            step=step, optimizer="ByHand", layers=layers, cosines=cosines, location="train.py:9"
        )
        for step in range(count)
    ]


def by_hand(values, *parts, operation: str = "cross_entropy"):
    own = loss(np.asarray(values), optimizers=("ByHand",))
    return WrongSign().check(window(own, *calls(operation), *parts))


RISING, FALLING = np.linspace(2.3, 9.0, 30), np.linspace(2.3, 0.4, 30)


@pytest.mark.parametrize(
    ("cosines", "values", "severity"),
    [
        ((1.0, 0.98), RISING, Severity.ERROR),
        ((1.0, 0.98), FALLING, Severity.ERROR),
        ((1.0, -1.0), RISING, Severity.ERROR),
        ((1.0, -1.0), FALLING, Severity.WARNING),
    ],
)
def test_fires_on_updates_by_hand_along_the_gradient(cosines, values, severity) -> None:
    [finding] = by_hand(values, *updates(*cosines))
    assert (finding.severity, finding.location) == (severity, "train.py:9")
    assert finding.layers[0] == "0.weight"
    assert "its sign is wrong" in finding.message
    assert finding.fixes[0].startswith("Subtract the gradient")


@pytest.mark.parametrize(
    "directions",
    [updates(-1.0, -0.9), updates(0.3, -1.0), updates(1.0, 1.0, count=4)],
    ids=["descent", "noise", "too few"],
)
def test_stays_quiet_on_other_updates_by_hand(directions: list[UpdateDirection]) -> None:
    assert by_hand(RISING, *directions) == []


def test_a_loss_of_unknown_operations_that_explodes_was_not_meant_to_be_climbed() -> None:
    def untraced(values: np.ndarray) -> list[Finding]:
        return WrongSign().check(window(loss(values, optimizers=("ByHand",)), *updates(1.0)))

    [finding] = untraced(np.geomspace(200.0, 1e12, 30))
    assert finding.severity is Severity.ERROR
    with pytest.raises(NotEnoughData):
        untraced(RISING)


def test_a_gain_may_be_climbed_by_hand() -> None:
    assert by_hand(-RISING[::-1], *updates(1.0)) == []
    with pytest.raises(NotApplicable):
        by_hand(RISING, *updates(1.0), operation="nll")


def summed(values: np.ndarray, *negated: bool | None) -> list[Finding]:
    """Check a loss that is a sum of errors with these signs."""
    terms = [
        LossCall(
            step=step,
            operation="cross_entropy",
            series=LOSS,
            alone=False,
            negated=sign,
            complete=True,
        )
        for step in range(3)
        for sign in negated
    ]
    return WrongSign().check(window(loss(values), *terms))


FALLING = -(1.1 ** np.arange(30.0))


def test_a_sum_of_errors_that_are_all_subtracted_fires() -> None:
    [finding] = summed(FALLING, True, True, True)
    assert finding.severity is Severity.ERROR
    assert "all 3 error terms" in finding.message
    assert finding.fixes[0].startswith("Add the errors instead of subtracting them")


def test_one_subtracted_error_of_several_fires_far_below_zero() -> None:
    [finding] = summed(FALLING, False, True)
    assert finding.severity is Severity.WARNING
    assert "1 of 2 error terms" in finding.message
    assert summed(FALLING / 10, False, True) == []


@pytest.mark.parametrize("signs", [(False, False), (True, None)], ids=["added", "unknown"])
def test_other_sums_stay_quiet(signs: tuple[bool | None, ...]) -> None:
    with pytest.raises(NotApplicable, match="several terms"):
        summed(FALLING, *signs)


def clipped(optimistic: bool | None, *above: str) -> list[Finding]:
    """Check a policy that is trained on a clipped objective."""
    gain = LossCall(
        step=0,
        operation="policy_gain",
        series=LOSS,
        above=above,
        alone=False,
        optimistic=optimistic,
    )
    return WrongSign().check(window(loss(np.linspace(0.1, -0.1, 30)), gain, gain))


@pytest.mark.parametrize(
    ("above", "way"),
    [
        (("mean", "add", "minimum"), "minimizes the smaller"),
        (("mean", "add", "neg", "maximum"), "maximizes the larger"),
    ],
)
def test_the_optimistic_side_of_a_clipped_objective_fires(above: tuple[str, ...], way: str) -> None:
    [finding] = clipped(True, *above)
    assert finding.severity is Severity.WARNING
    assert f"{way} of the two gains of the policy" in finding.message
    assert "-torch.min(" in finding.fixes[0]


@pytest.mark.parametrize("optimistic", [False, None])
def test_the_pessimistic_side_of_a_clipped_objective_is_fine(optimistic: bool | None) -> None:
    with pytest.raises(NotApplicable):
        clipped(optimistic, "mean", "neg", "minimum")
