from __future__ import annotations

import pytest
from tests.rules.weights import tensors
from tests.rules.windows import gradients, loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.nonfinite import NonfiniteModule
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Matrix, Series
from mothtrap.rules.nonfinite_weight import NonfiniteWeight

BROKEN = loss([1.0, 0.9, float("nan"), float("nan")])


def counts(
    nan: list[float], inf: list[float] | None = None, steps: list[int] | None = None
) -> tuple[Matrix, Matrix]:
    healthy = [0.0] * len(nan)
    return (
        tensors("nan", {"0.weight": healthy, "2.weight": nan}, steps=steps),
        tensors("inf", {"0.weight": healthy, "2.weight": inf or healthy}, steps=steps),
    )


def check(*parts: Matrix | Series | NonfiniteModule) -> list[Finding]:
    return NonfiniteWeight().check(window(*parts))


def test_fires_on_weights_that_are_nan_from_the_beginning() -> None:
    [finding] = check(*counts([3.0, 3.0]))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.layers == ("2.weight",)
    assert finding.location == "model.py:2"
    assert "from the beginning" in finding.message


def test_the_onset_is_after_the_step_whose_gradient_broke_them() -> None:
    broken = {"2.weight": [0.0] * 17 + [5.0] * 60}
    applied = gradients("nan", broken), gradients("inf", {"2.weight": [0.0] * 77})
    late = counts([0.0, 0.0, 8.0], steps=[0, 32, 64])
    [finding] = check(*late, *applied)
    assert (finding.step, finding.evidence["seen_at"]) == (18, 64)


def test_without_a_gradient_the_onset_is_between_two_looks() -> None:
    [finding] = check(*counts([0.0, 8.0], steps=[0, 16]))
    assert "since a step between 1 and 16" in finding.message
    assert not any("initialized" in fix for fix in finding.fixes)


def test_steps_that_loss_scaling_skipped_break_nothing() -> None:
    values = {"2.weight": [0.0] * 17 + [5.0] + [0.0] * 59}
    skipped = gradients("nan", values, skipped=[17]), gradients("inf", values, skipped=[17])
    [finding] = check(*counts([0.0, 8.0], steps=[0, 64]), *skipped)
    assert finding.step == 64


def test_a_module_whose_parameters_were_not_finite_tells_of_it_too() -> None:
    module = NonfiniteModule(
        step=9, module="2", module_type="Linear", nan=4, inf=0, parameters_finite=False
    )
    [finding] = check(*counts([0.0, 0.0]), module)
    assert (finding.severity, finding.step, finding.layers) == (Severity.ERROR, 9, ("2",))


def test_infinite_values_are_an_error_only_where_the_loss_broke() -> None:
    [warning] = check(*counts([0.0, 0.0], [0.0, 2.0]))
    assert warning.severity is Severity.WARNING
    [error] = check(*counts([0.0, 0.0], [0.0, 2.0]), BROKEN)
    assert error.severity is Severity.ERROR


def test_stays_quiet_on_finite_weights() -> None:
    assert check(*counts([0.0] * 5), BROKEN) == []
    finite = NonfiniteModule(step=9, module="2", module_type="Log", nan=4, inf=0)
    assert check(*counts([0.0] * 5), finite) == []


def test_cannot_judge_what_was_not_looked_at() -> None:
    with pytest.raises(NotEnoughData):
        check(BROKEN)
