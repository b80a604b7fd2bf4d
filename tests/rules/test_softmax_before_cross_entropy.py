from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.softmax_before_cross_entropy import softmax_before_cross_entropy


def call(operation: str = "cross_entropy", *chain: str, step: int = 0, classes: int = 10, **more):
    return LossCall(
        step=step,
        operation=operation,
        chain=chain,
        classes=classes,
        location="train.py:20",
        **more,
    )


def check(*calls: LossCall):
    return softmax_before_cross_entropy().check(window(*calls))


@pytest.mark.parametrize(
    "faulty",
    [
        call("cross_entropy", "softmax", "linear"),
        call("cross_entropy", "view", "cast", "softmax", "linear"),
        call("nll", "softmax", "linear"),
        call("kl_div", "softmax", "linear"),
        call("nll", "log_softmax", "softmax", "linear"),
    ],
)
def test_fires_on_softmax_under_the_loss(faulty: LossCall) -> None:
    [finding] = check(faulty)
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.location == "train.py:20"


@pytest.mark.parametrize(
    "healthy",
    [
        call("cross_entropy", "linear"),
        call("nll", "log_softmax", "linear"),
        call("kl_div", "log_softmax", "linear"),
        call("nll", "log", "softmax", "linear"),
        call("cross_entropy", "mul", "softmax"),
        call("cross_entropy", "softmax", classes=1),
        call("cross_entropy", "linear", rows_are_probabilities=True),
    ],
)
def test_stays_quiet_on_healthy_wiring(healthy: LossCall) -> None:
    quiet = healthy if healthy.classes != 1 else call("cross_entropy", "linear")
    assert check(healthy, quiet) == []


def test_its_line_is_named_where_it_is_known() -> None:
    [finding] = check(call("cross_entropy", "softmax", "linear", made_at="net.py:9"))
    assert finding.message.endswith("; the softmax is called at net.py:9")


def test_log_softmax_twice_is_a_note() -> None:
    [finding] = check(call("cross_entropy", "log_softmax", "linear"))
    assert finding.severity is Severity.INFO
    assert "harmless" in finding.message


def test_two_batches_of_probabilities_prove_it_where_there_is_no_graph() -> None:
    faulty = [call(step=s, rows_are_probabilities=True, mode=Mode.EVAL) for s in (3, 5)]
    assert check(faulty[0]) == []
    [finding] = check(*faulty)
    assert (finding.severity, finding.step, finding.mode) == (Severity.ERROR, 3, "eval")
    assert "in evaluation" in finding.message
    assert finding.fixes[0].startswith("In evaluation, pass the logits to the loss")


def test_one_batch_of_logits_disproves_it() -> None:
    values = [True, True, False]
    calls = [call(step=s, rows_are_probabilities=v) for s, v in enumerate(values)]
    assert check(*calls) == []


def test_does_not_apply_without_a_class_loss() -> None:
    with pytest.raises(NotApplicable):
        check(LossCall(step=0, operation="elementwise"))
    with pytest.raises(NotEnoughData):
        softmax_before_cross_entropy().check(window(steps=1))


def test_a_divergence_is_given_the_logarithm() -> None:
    [finding] = check(call("kl_div", "softmax", "linear"))
    assert finding.message.startswith("softmax goes into kl_div, which expects log-probabilities")
    assert [fix[:36] for fix in finding.fixes] == ["Give `kl_div` log-probabilities: `F."]
