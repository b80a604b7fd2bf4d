from __future__ import annotations

import msgspec
import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.loss_terms import OverlapBroadcast
from mothtrap.core.facts.losses import LossCall, MetricBroadcast
from mothtrap.core.findings import Severity
from mothtrap.rules.loss_broadcast import loss_broadcast

Shape = tuple[int, ...]


def call(prediction: Shape | None, target: Shape | None, result: Shape | None, step: int = 0):
    return LossCall(
        step=step,
        operation="elementwise",
        prediction_shape=prediction,
        target_shape=target,
        result_shape=result,
        location="train.py:12",
    )


@pytest.mark.parametrize(
    ("prediction", "target", "result"),
    [
        ((32, 1), (32,), (32, 32)),
        ((32,), (32, 1), (32, 32)),
        ((8, 5, 1), (8, 5), (8, 8, 5)),
    ],
)
def test_fires_when_every_prediction_meets_every_target(
    prediction: Shape, target: Shape, result: Shape
) -> None:
    found = loss_broadcast().check(
        window(call((4,), (4,), (4,)), call(prediction, target, result, 3))
    )
    assert [(f.severity, f.step, f.location) for f in found] == [(Severity.ERROR, 3, "train.py:12")]
    assert str(prediction) in found[0].message


def test_one_output_of_keras_for_several_targets_is_a_warning() -> None:
    one = msgspec.structs.replace(call((32, 1), (32, 12), (32, 12)), function="mean_squared_error")
    [found] = loss_broadcast().check(window(one))
    assert found.severity is Severity.WARNING
    assert "return_sequences=True" in found.fixes[0]
    quantiles = msgspec.structs.replace(one, function=None)
    assert not loss_broadcast().check(window(quantiles))


@pytest.mark.parametrize(
    ("prediction", "target", "result"),
    [
        pytest.param((32, 1), (32, 1), (32, 1), id="equal"),
        pytest.param((32,), (), (32,), id="scalar target"),
        pytest.param((32,), (1,), (32,), id="target of size 1"),
        pytest.param((1, 1), (1,), (1, 1), id="one example"),
        pytest.param((4, 8, 1), (4, 1, 8), (4, 8, 8), id="outer difference on purpose"),
        pytest.param((32, 3), (3,), (32, 3), id="one target for all"),
        pytest.param((32, 1), None, None, id="unknown shapes"),
    ],
)
def test_stays_quiet(prediction: Shape, target: Shape | None, result: Shape | None) -> None:
    assert loss_broadcast().check(window(call(prediction, target, result))) == []


def test_a_metric_that_broadcasts_is_named_with_its_shapes() -> None:
    metric = MetricBroadcast(step=0, metric="r2", prediction_axes=2, target_axes=1)
    [found] = loss_broadcast().check(window(call((32, 1), (32, 1), (32, 1)), metric))
    assert (found.severity, found.title) == (Severity.WARNING, "broadcast in a metric")
    assert "(N, 1) and the target (N,): the metric `r2`" in found.message


def test_a_loss_that_broadcasts_comes_before_its_metric() -> None:
    metric = MetricBroadcast(step=0, metric="r2", prediction_axes=2, target_axes=1)
    found = loss_broadcast().check(window(call((32, 1), (32,), (32, 32)), metric))
    assert [one.severity for one in found] == [Severity.ERROR, Severity.WARNING]


def test_does_not_apply_to_class_losses() -> None:
    with pytest.raises(NotApplicable):
        loss_broadcast().check(window(LossCall(step=0, operation="cross_entropy")))


def test_cannot_judge_before_a_loss_was_traced() -> None:
    with pytest.raises(NotEnoughData):
        loss_broadcast().check(window(steps=2))


@pytest.mark.parametrize(("found", "findings"), [(5, 1), (3, 0)])
def test_an_overlap_counts_predictions_several_times(found: int, findings: int) -> None:
    seen = OverlapBroadcast(
        step=12,
        looks=5,
        found=found,
        prediction_shape=(8, 1, 16, 16),
        target_shape=(8, 3, 16, 16),
        location="train.py:5",
    )
    every = loss_broadcast().check(window(seen, LossCall(step=0, operation="elementwise")))
    assert len(every) == findings
    for one in every:
        assert (one.severity, one.location) == (Severity.ERROR, "train.py:5")
        assert "counts each prediction several times" in one.message
        assert one.fixes[0].startswith("Give the target the shape of the prediction")
