from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import pytest
from tests.rules.epochs import epochs
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.metric_contradicts_loss import MetricContradictsLoss
from mothtrap.testing import RuleTests

FALLS = (1.0, 0.7, 0.5, 0.4, 0.35, 0.3, 0.28, 0.26)
NOTHING = (0.0,) * len(FALLS)
WORSE = (0.57, 0.5, 0.48, 0.46, 0.45, 0.43, 0.42, 0.41)


def told(
    metric: str,
    values: Sequence[float],
    loss: Sequence[float] = FALLS,
    *,
    held_out: Sequence[float] = (),
    **options: object,
) -> list[EpochMetrics]:
    """The epochs of a training: a metric, its loss, and the metric of the validation."""
    other = {metric: held_out, "loss": loss[: len(held_out)]} if len(held_out) else {}
    return epochs({metric: values, "loss": loss[: len(values)]}, other, **options)


class TestMetricContradictsLoss(RuleTests):
    rule = MetricContradictsLoss

    def sick(self) -> Iterable[Window]:
        yield window(*told("accuracy", NOTHING))
        yield window(*told("accuracy", NOTHING, held_out=NOTHING))
        yield window(*told("binary_accuracy", [0.003, 0.004, 0.004, 0.004], held_out=[0.005] * 4))
        yield window(*told("pair_accuracy", WORSE))
        dice = [0.06, 0.02, 0.01, 0.005, 0.004]
        yield window(*told("dice_coef", dice, dice, held_out=[0.02, 0.01]))
        yield window(*told("auc", [0.5, 0.4, 0.3, 0.2, 0.1]))

    def healthy(self) -> Iterable[Window]:
        rises = np.linspace(0.1, 0.9, len(FALLS))
        yield window(*told("accuracy", rises, held_out=rises))
        yield window(*told("accuracy", [0.97] * 8))  # the share of the largest class
        yield window(*told("accuracy", NOTHING[:3]))
        yield window(*told("accuracy", NOTHING, np.linspace(1.0, 0.8, 8)))
        yield window(*told("recall", NOTHING, higher_is_better=("recall",)))
        yield window(*told("exact_match_accuracy", NOTHING))
        yield window(*told("precision", WORSE))
        yield window(*told("mae", WORSE))
        yield window(*told("dice", WORSE))  # small areas under a crossentropy
        yield window(*told("spread", WORSE))  # not known which way it is better
        yield window(*told("accuracy", [0.98, 0.95, 0.93, 0.9, 0.88]))
        yield window(*told("accuracy", WORSE, weighted=True))
        yield window(*told("accuracy", WORSE, held_out=np.linspace(0.4, 0.6, 8)))
        yield window(*told("accuracy", WORSE, FALLS[::-1]))
        yield window(*told("accuracy", [0.4, 0.45, 0.38, 0.42, 0.37, 0.41, 0.36, 0.39]))


def test_it_says_what_the_metric_and_the_loss_did() -> None:
    [finding] = MetricContradictsLoss().check(window(*told("pair_accuracy", WORSE)))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert finding.message == (
        "pair_accuracy fell from 0.57 to 0.41 while the loss fell from 1 to 0.26: the loss "
        "rewards the opposite of the metric"
    )
    assert [fix.split()[1] for fix in finding.fixes] == ["which", "the", "the", "the"]


def test_an_accuracy_of_nothing_is_told_even_if_a_rounded_sigmoid_is_right_later() -> None:
    values = [*NOTHING[:5], 0.01, 0.03, 0.06]
    [finding] = MetricContradictsLoss().check(window(*told("accuracy", values, held_out=values)))
    assert finding.message == (
        "the evaluation accuracy is 0 in the first 5 evaluations, while the loss fell from 1 to "
        "0.35: no prediction counts as correct"
    )
    assert all(fix.startswith("Check the metric") for fix in finding.fixes)
    late = [*NOTHING[:5], 0.2, 0.5, 0.9]
    assert MetricContradictsLoss().check(window(*told("accuracy", late, held_out=late))) == []


ROWS = LossCall(step=0, operation="cross_entropy", prediction_shape=(32, 4), reduction="mean")


def evaluated(metric: str, values: Sequence[float], loss: Sequence[float]) -> list[EpochMetrics]:
    """The evaluations of a trainer that knows only the loss of the training data."""
    return epochs({"loss": loss}, {metric: values, "loss": loss})


def test_an_accuracy_cannot_be_lower_than_its_loss_allows() -> None:
    same = evaluated("accuracy", [0.49] * 6, [0.67, 0.41, 0.19, 0.127, 0.099, 0.094])
    [finding] = MetricContradictsLoss().check(window(*same, ROWS))
    assert finding.message == (
        "the evaluation accuracy is 0.49, but a loss of 0.094 means that at least 86 % of the rows "
        "are right"
    )


def test_an_accuracy_of_reshaped_outputs_that_stands_still_is_told() -> None:
    flat = TargetSample(dtype="float32", count=32, by_position=True)
    one = LossCall(
        step=0,
        operation="binary_cross_entropy",
        prediction_shape=(32,),
        reduction="mean",
        targets=flat,
    )
    loss = [0.67, 0.41, 0.19, 0.127, 0.099, 0.094]
    assert MetricContradictsLoss().check(window(*evaluated("accuracy", [0.49] * 6, loss), one))
    moves = evaluated("accuracy", [0.41, 0.43, 0.44, 0.46, 0.47, 0.49], loss)
    assert MetricContradictsLoss().check(window(*moves, one)) == []


def test_other_losses_do_not_bound_an_accuracy() -> None:
    same = evaluated(
        "accuracy", [0.4, 0.42, 0.43, 0.44, 0.46, 0.49], [0.67, 0.41, 0.19, 0.127, 0.099, 0.094]
    )
    tokens = TargetSample(dtype="int64", count=64, by_position=True)
    focal = msgspec.structs.replace(ROWS, function="categorical_focal_crossentropy")
    weighted = TargetSample(dtype="int64", count=64, weighted=True)
    for other in (
        msgspec.structs.replace(ROWS, operation="elementwise"),
        msgspec.structs.replace(ROWS, prediction_shape=(32, 7, 4)),
        msgspec.structs.replace(ROWS, targets=tokens),
        msgspec.structs.replace(ROWS, targets=weighted),
        msgspec.structs.replace(ROWS, reduction="none"),
        focal,
    ):
        assert MetricContradictsLoss().check(window(*same, ROWS, other)) == []
    unbalanced = evaluated("accuracy", [0.97] * 6, [0.3, 0.2, 0.12, 0.1, 0.09, 0.08])
    assert MetricContradictsLoss().check(window(*unbalanced, ROWS)) == []


def test_an_evaluation_accuracy_that_falls_with_its_loss_is_told() -> None:
    falls = evaluated("accuracy", [0.28, 0.246, 0.16, 0.14, 0.13], [1.36, 1.2, 0.97, 0.8, 0.75])
    [finding] = MetricContradictsLoss().check(window(*falls, ROWS))
    assert finding.message.startswith("the evaluation accuracy fell from 0.28 to 0.13 while")


def test_each_training_of_a_line_is_judged_by_itself() -> None:
    folds = [one for _ in range(4) for one in told("accuracy", NOTHING[:2])]
    with pytest.raises(NotEnoughData):
        MetricContradictsLoss().check(window(*folds))


def test_a_sum_of_losses_is_not_judged() -> None:
    several = epochs({"a_accuracy": WORSE, "loss": FALLS, "a_loss": FALLS, "b_loss": FALLS})
    with pytest.raises(NotApplicable):
        MetricContradictsLoss().check(window(*several))


def test_a_loss_that_is_the_score_itself_has_the_wrong_sign() -> None:
    [finding] = MetricContradictsLoss().check(window(*told("dice", WORSE, WORSE)))
    assert finding.fixes[0].startswith("Check the sign")
