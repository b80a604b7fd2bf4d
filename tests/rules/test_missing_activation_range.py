from __future__ import annotations

import math

import msgspec
import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import FailedLoss, LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.missing_activation_range import MissingActivationRange


def call(
    share: float | None,
    *chain: str,
    step: int = 0,
    count: int = 64,
    operation: str = "elementwise",
    normalized: bool | None = None,
) -> LossCall:
    return LossCall(
        step=step,
        operation=operation,
        chain=chain,
        location="train.py:9",
        targets=TargetSample(
            dtype="float32",
            count=count,
            least=-2.0,
            greatest=2.0,
            outside_share=share,
            normalized=normalized,
        ),
    )


def check(*calls: LossCall) -> list[Finding]:
    return MissingActivationRange().check(window(*calls))


@pytest.mark.parametrize("last", ["relu", "sigmoid", "tanh", "softplus", "softmax"])
def test_many_targets_out_of_reach_are_an_error(last: str) -> None:
    [finding] = check(call(0.5, last, "linear"))
    assert (finding.severity, finding.evidence["operation"]) == (Severity.ERROR, last)
    assert finding.location == "train.py:9"
    assert [fix.split()[0] for fix in finding.fixes] == ["Remove"]


def test_few_targets_out_of_reach_are_a_warning_and_single_ones_nothing() -> None:
    assert check(call(0.02, "tanh"))[0].severity is Severity.WARNING
    assert check(call(0.0005, "tanh", count=4000)) == []


def test_shares_are_added_up_over_looks() -> None:
    with_few = [call(0.0, "relu", step=8 * n, count=32) for n in range(9)]
    assert check(*with_few, call(0.5, "relu", step=72, count=32))[0].severity is Severity.WARNING
    assert check(call(0.5, "relu", count=32)) == []


def test_a_negative_log_likelihood_of_scores_is_an_error() -> None:
    scores = [call(None, "linear", step=step, operation="nll", normalized=False) for step in (0, 8)]
    [finding] = check(*scores)
    assert finding.severity is Severity.ERROR
    assert "log-softmax is missing" in finding.message
    assert len(finding.fixes) == 1
    assert "`cross_entropy`" in finding.fixes[0]
    assert check(scores[0]) == []


def refused(least: float, greatest: float) -> FailedLoss:
    return FailedLoss(
        step=9,
        operation="binary_cross_entropy",
        error="RuntimeError: ...",
        predicted_least=least,
        predicted_greatest=greatest,
    )


def test_predictions_that_a_binary_loss_refused_are_an_error() -> None:
    [finding] = check(refused(-0.3, 1.7), call(0.0, "relu", step=8))
    assert (finding.severity, finding.step) == (Severity.ERROR, 9)
    assert "a sigmoid is missing" in finding.message
    assert len(finding.fixes) == 1
    assert "`binary_cross_entropy_with_logits`" in finding.fixes[0]


def test_nan_that_a_binary_loss_refused_is_another_fault() -> None:
    assert check(refused(math.nan, math.nan), call(0.0, "relu")) == []
    assert check(refused(0.0, 1.0), call(0.0, "relu")) == []


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param([call(0.0, "relu"), call(0.0, "relu", step=8)], id="inside"),
        pytest.param(
            [call(None, "linear", step=s, operation="nll", normalized=True) for s in (0, 8)],
            id="log-probabilities by hand",
        ),
        pytest.param(
            [call(None, "log", step=s, operation="nll", normalized=False) for s in (0, 8)],
            id="no linear layer",
        ),
        pytest.param(
            [call(None, "linear", step=s, operation="nll", normalized=bool(s)) for s in (0, 8, 16)],
            id="one look that differs",
        ),
    ],
)
def test_stays_quiet(healthy: list[LossCall]) -> None:
    assert check(*healthy) == []


def test_does_not_apply_to_models_that_end_in_a_linear_layer() -> None:
    with pytest.raises(NotApplicable, match="bounded"):
        check(call(None, "linear"))
    with pytest.raises(NotEnoughData):
        check(LossCall(step=0, operation="elementwise"))


@pytest.mark.parametrize(
    ("operation", "severity"),
    [
        ("cross_entropy", Severity.WARNING),
        ("binary_cross_entropy_with_logits", Severity.ERROR),
    ],
)
def test_scores_that_come_from_a_rectifier(operation: str, severity: Severity) -> None:
    looks = [call(None, "relu", "linear", step=n, operation=operation) for n in range(3)]
    [finding] = check(*looks)
    assert (finding.severity, finding.step) == (severity, 0)
    assert "gets the output of a ReLU" in finding.message
    assert [fix.split()[:3] for fix in finding.fixes] == [["Remove", "the", "ReLU"]]


@pytest.mark.parametrize("chain", [("linear", "relu"), ("mean", "relu", "linear"), ()])
def test_scores_of_other_operations_are_quiet(chain: tuple[str, ...]) -> None:
    assert check(*(call(None, *chain, step=n, operation="cross_entropy") for n in range(3))) == []


@pytest.mark.parametrize(
    ("operation", "activation"), [("cross_entropy", "softmax"), ("binary_cross_entropy", "sigmoid")]
)
def test_a_relu_in_place_of_probabilities_is_an_error(operation: str, activation: str) -> None:
    looks = [
        msgspec.structs.replace(
            call(None, "relu", "linear", step=n, operation=operation),
            predicts_probabilities=True,
            function="crossentropy",
        )
        for n in range(3)
    ]
    [finding] = check(*looks)
    assert finding.severity is Severity.ERROR
    assert "crossentropy expects probabilities but gets the output of a ReLU" in finding.message
    assert finding.fixes == (f"End the model with a {activation} instead of the ReLU.",)
    assert {"nonfinite_loss", "nonfinite_gradient"} <= set(MissingActivationRange.explains)
