"""UnchangedTensor of SageMaker Debugger: `collection_names` and `tensor_regex` are patterns in
`tensors`; `num_steps`, `rtol`, `atol` and `equal_nan` are called so here too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.rules.weights import tensors
from tests.rules.windows import gradients, loss, noise, series, window

from mothtrap.core.errors import ConfigError, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Matrix, Series
from mothtrap.rules._weights import GRADIENTS, WEIGHTS
from mothtrap.rules.unchanged_tensor import COMPARED, UnchangedTensor

FLAT = loss(2.3 + noise(100, scale=0.01))
FALLING = loss(np.geomspace(2.3, 0.1, 100))
STEPS = 100


def looks(first: Sequence[float], second: Sequence[float] | None = None) -> Matrix:
    other = first if second is None else second
    return tensors("update_ratio", {"0.weight": first, "2.weight": other})


def norms(first: Sequence[float]) -> Matrix:
    return tensors("l2", {"0.weight": first, "2.weight": first})


def pulled(first: float = 1.0, second: float = 1.0) -> Matrix:
    return gradients("l2", {"0.weight": [first] * STEPS, "2.weight": [second] * STEPS})


def check(*parts: Matrix | Series, rule: UnchangedTensor | None = None) -> list[Finding]:
    return (rule or UnchangedTensor()).check(window(*parts, steps=STEPS))


def test_fires_when_no_step_changes_the_weights() -> None:
    [finding] = check(looks([0.0] * 7), pulled(), FLAT)
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.layers == ("0.weight", "2.weight")
    assert finding.location == "model.py:1"


def test_stays_quiet_where_an_exact_fit_leaves_nothing_to_change() -> None:
    fitted = gradients(
        "l2", {name: np.geomspace(1.0, 1e-7, STEPS) for name in ("0.weight", "2.weight")}
    )
    assert check(looks([1e-3] * 5 + [0.0] * 3), fitted, FALLING) == []


def test_stays_quiet_where_weights_move_between_the_samples() -> None:
    growing = norms(list(np.linspace(8.0, 9.0, 7)))
    assert check(looks([0.0] * 7), growing, pulled(), FLAT) == []
    assert check(looks([0.0] * 7), norms([8.0] * 7), pulled(), FLAT)


def test_warns_of_a_weight_among_others_that_change() -> None:
    change = {"a": [0.0] * 7, "b": [1e-3] * 7, "c": [1e-3] * 7}
    pulls = gradients("l2", {name: [1.0] * STEPS for name in change})
    [finding] = check(tensors("update_ratio", change), pulls)
    assert (finding.severity, finding.layers) == (Severity.WARNING, ("a",))


def test_names_the_step_from_which_on_they_stay() -> None:
    [finding] = check(looks([1e-3] * 4 + [0.0] * 4), pulled())
    assert finding.step == 8


def test_fires_when_weights_are_put_back_after_every_step() -> None:
    [finding] = check(looks([0.02] * 7), norms([3.25] * 7), pulled(), FLAT)
    assert finding.severity is Severity.ERROR
    assert finding.evidence["restored"] is True
    assert "reset after every step" in finding.message


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((looks([1e-3] * 7), pulled()), id="weights that change"),
        pytest.param((looks([0.0] * 7), pulled(0.0, 0.0)), id="no gradient"),
        pytest.param((looks([0.0] * 7),), id="gradients that are not known"),
        pytest.param((looks([0.0] * 7), pulled(), series("lr", [0.0] * STEPS)), id="a rate of 0"),
        pytest.param((looks([0.0, 0.0, 1e-3]), pulled()), id="two looks"),
        pytest.param(
            (looks([0.02] * 7), norms([1.0] * 7), pulled(), FALLING), id="rows of length 1"
        ),
        pytest.param(
            (looks([0.02] * 7), norms([1.0, 1.1] * 3), pulled(), FLAT), id="norms that differ"
        ),
    ],
)
def test_stays_quiet(parts: tuple[Matrix | Series, ...]) -> None:
    assert check(*parts) == []


def test_cannot_judge_a_look_or_two() -> None:
    with pytest.raises(NotEnoughData):
        check(looks([0.0, 0.0]), pulled())


def captured(values: Sequence[float], steps: Sequence[int] | None = None) -> list[Matrix]:
    at = [10 * row for row in range(len(values))] if steps is None else steps
    return [
        tensors(statistic, {"gate": values}, kind="activation", steps=at) for statistic in COMPARED
    ]


def named(**options: float | bool | str) -> UnchangedTensor:
    return UnchangedTensor(tensors="activations:gate", **options)  # type: ignore[arg-type]


def test_of_tensors_named_three_equal_steps_fire_at_the_third() -> None:
    assert check(*captured([1.0, 2.0, 2.0]), rule=named()) == []
    [finding] = check(*captured([1.0, 2.0, 2.0, 2.0]), rule=named())
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 10, 3)


def test_num_steps_counts_the_steps_at_which_there_is_a_value() -> None:
    assert check(*captured([2.0] * 4), rule=named(num_steps=4)) != []
    gaps = captured([2.0, 2.0, 2.0], steps=[0, 30, 90])
    assert check(*gaps, rule=named()) != []
    with pytest.raises(NotEnoughData, match="fewer than 4"):
        check(*gaps, rule=named(num_steps=4))


def test_tolerances_are_those_of_allclose() -> None:
    close = captured([1.0, 1.001, 1.002])
    assert check(*close, rule=named()) == []
    assert check(*close, rule=named(rtol=0.01)) != []
    assert check(*close, rule=named(atol=0.01)) != []


def test_nan_equals_nan_where_asked_for() -> None:
    present = [
        Matrix(
            kind=part.kind,
            statistic=part.statistic,
            tensors=part.tensors,
            steps_S=part.steps_S,
            values_ST=part.values_ST,
            present_ST=np.ones_like(part.present_ST),
            skipped_S=part.skipped_S,
        )
        for part in captured([np.nan, np.nan, np.nan])
    ]
    assert check(*present, rule=named()) == []
    assert check(*present, rule=named(equal_nan=True)) != []


def test_one_statistic_that_differs_means_changed() -> None:
    parts = captured([2.0, 2.0, 2.0])
    parts[0] = tensors("min", {"gate": [1.0, 2.0, 3.0]}, kind="activation", steps=[0, 10, 20])
    assert check(*parts, rule=named()) == []


def test_it_needs_what_is_named_beside_the_weights() -> None:
    assert UnchangedTensor().needs[:-1] == (*WEIGHTS, GRADIENTS)
    assert named(every_steps=5).needs[-1].tensors == ("activations:gate",)
    assert named(every_steps=5).needs[-1].every == 5
    with pytest.raises(ConfigError, match="WGT303"):
        UnchangedTensor(tensors="nothing")


def test_stays_quiet_where_the_loss_is_about_0_from_the_start() -> None:
    tiny = gradients("l2", {name: [1e-8] * STEPS for name in ("0.weight", "2.weight")})
    assert check(looks([0.0] * 7), tiny, loss(1e-14 * (1 + noise(STEPS, scale=0.1)))) == []
