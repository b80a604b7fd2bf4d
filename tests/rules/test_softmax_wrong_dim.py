from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.softmax_wrong_dim import softmax_wrong_dim


def call(
    operation: str,
    shape: tuple[int, ...],
    *sizes: int,
    classes: int | None = None,
    reduction: str | None = "mean",
) -> LossCall:
    return LossCall(
        step=0,
        operation=operation,
        prediction_shape=shape,
        softmax_sizes=sizes,
        classes=classes,
        reduction=reduction,
        location="train.py:9",
    )


def check(*calls: LossCall) -> list[Finding]:
    return softmax_wrong_dim().check(window(*calls))


@pytest.mark.parametrize(
    "faulty",
    [
        pytest.param(call("cross_entropy", (32, 10), 32, classes=10), id="nll of log-softmax"),
        pytest.param(call("nll", (32, 10), 32, classes=10), id="nll of the log of a softmax"),
        pytest.param(call("cross_entropy", (8, 20, 50), 20, classes=50), id="over positions"),
        pytest.param(call("cross_entropy", (32, 10), 10, 32, classes=10), id="below the loss's"),
        pytest.param(call("ctc_loss", (24, 32, 37), 32, classes=37, reduction=None), id="CTC"),
    ],
)
def test_another_axis_under_a_loss_of_labels_is_an_error(faulty: LossCall) -> None:
    [finding] = check(faulty)
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.location == "train.py:9"


@pytest.mark.parametrize(
    "faulty",
    [
        pytest.param(call("elementwise", (32, 10), 32), id="squared error of one-hot labels"),
        pytest.param(call("binary_cross_entropy", (32, 10), 32, classes=2), id="binary"),
        pytest.param(call("cross_entropy", (32, 10), 32, classes=32, reduction=None), id="by hand"),
    ],
)
def test_elsewhere_it_is_a_warning(faulty: LossCall) -> None:
    assert check(faulty)[0].severity is Severity.WARNING


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param(call("cross_entropy", (32, 10), 10, classes=10), id="classes"),
        pytest.param(call("cross_entropy", (8, 20, 50), 50, classes=50), id="sequences"),
        pytest.param(call("cross_entropy", (8, 5, 4, 4), 5, classes=5), id="images"),
        pytest.param(call("cross_entropy", (16, 16), 16, classes=16), id="all pairs"),
        pytest.param(call("cross_entropy", (32, 10), 10, classes=10, reduction=None), id="by hand"),
        pytest.param(
            call("cross_entropy", (12,), 12, classes=12, reduction=None), id="one example"
        ),
        pytest.param(call("elementwise", (32, 10), 10), id="distillation"),
    ],
)
def test_stays_quiet(healthy: LossCall) -> None:
    assert check(healthy) == []


def test_a_last_batch_of_pairs_excuses_the_call_site() -> None:
    pairs = call("cross_entropy", (32, 32), 32, classes=32, reduction=None)
    last = call("cross_entropy", (7, 32), 7, classes=7, reduction=None)
    assert check(pairs, last) == []
    assert len(check(last)) == 1


def test_does_not_apply_without_a_softmax() -> None:
    with pytest.raises(NotApplicable):
        check(call("elementwise", (32, 1)))
    with pytest.raises(NotEnoughData):
        check()


def test_before_a_cross_entropy_the_softmax_is_to_be_removed() -> None:
    """Along the right axis it would be applied twice."""
    [twice] = check(call("cross_entropy", (32, 10), 10, 32, classes=10))
    assert twice.fixes[0].startswith("Remove the softmax")
    [once] = check(call("cross_entropy", (32, 10), 32, classes=10))
    assert once.fixes[0].startswith("Apply the softmax over the classes")
