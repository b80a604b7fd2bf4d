from __future__ import annotations

import pytest
from tests.rules.windows import gradients, loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import LoaderBegan, RowsShared, TargetOrder
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Severity
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Matrix
from mothtrap.rules.too_little_data import TooLittleData


def loader(samples: int, batch_size: int | None = None) -> LoaderBegan:
    return LoaderBegan(
        step=0,
        loader="loader 1",
        sampler="shuffled",
        samples=samples,
        batch_size=batch_size,
        location="train.py:6",
    )


def labels(count: int) -> LossCall:
    return LossCall(
        step=0,
        operation="cross_entropy",
        mode=Mode.TRAIN,
        targets=TargetSample(dtype="int64", count=count),
    )


def targets(*counts: tuple[int, ...]) -> TargetOrder:
    return TargetOrder(
        step=8, site="a", steps=tuple(range(len(counts))), counts=counts, loader="loader 1"
    )


def held_out(value: float, *, train: float) -> tuple[Evaluation, ...]:
    return tuple(
        Evaluation(
            step=step,
            mode=Mode.EVAL,
            site="train.py:30",
            operation="cross_entropy",
            value=value,
            calls=1,
            rows=64,
            number=number,
            first=value,
            best=value,
            best_step=2,
            train_losses={"train.py:9 SGD": train},
        )
        for number, step in enumerate((2, 5, 8))
    )


FOUR = targets((5, 9, 7, 11), (8, 8, 8, 8))


def weights(count: int) -> Matrix:
    made = gradients("l2", {"0.weight": [1.0] * 9})
    tensor = TensorInfo(kind="gradient", name="0.weight", shape=(count, 100))
    return Matrix(
        kind=made.kind,
        statistic=made.statistic,
        tensors=(tensor,),
        steps_S=made.steps_S,
        values_ST=made.values_ST,
        present_ST=made.present_ST,
        skipped_S=made.skipped_S,
    )


def test_few_samples_a_class_are_a_note() -> None:
    [finding] = TooLittleData().check(window(loader(40), FOUR))
    assert (finding.severity, finding.location) == (Severity.INFO, "train.py:6")
    assert finding.message.startswith("only 40 training samples for 4 classes")


def test_fewer_labels_than_classes_are_not_all_samples() -> None:
    with pytest.raises(NotEnoughData, match="fewer than the"):
        TooLittleData().check(window(loader(1), FOUR))


def test_samples_of_many_labels_are_counted_by_their_labels() -> None:
    assert not TooLittleData().check(window(loader(40, batch_size=8), FOUR, labels(8 * 30)))
    assert TooLittleData().check(window(loader(40, batch_size=8), FOUR, labels(8)))
    assert TooLittleData().check(window(loader(40), FOUR, labels(8 * 30)))


def test_rows_sliced_by_hand_are_counted_when_they_have_come_around() -> None:
    rows = RowsShared(
        step=9, module="N", argument="x", source="c", train_rows=40, eval_rows=9, shared=0
    )
    [finding] = TooLittleData().check(window(rows, targets((5, 5), (4, 6))))
    assert finding.evidence["samples"] == 40


def test_many_parameters_and_a_gap_are_a_note() -> None:
    parts = (loader(300), FOUR, weights(400))
    [finding] = TooLittleData().check(window(*parts, *held_out(0.5, train=0.1)))
    assert finding.evidence["parameters"] == 40_000
    assert finding.evidence["gap"] == pytest.approx(5)
    assert TooLittleData().check(window(*parts, *held_out(0.15, train=0.1))) == []
    assert TooLittleData().check(window(*parts)) == []


def test_a_sum_over_the_rows_of_an_evaluation_is_no_gap() -> None:
    summed = loss([64.0] * 3, steps=[2, 5, 8], mode=Mode.EVAL)
    parts = (loader(300), FOUR, weights(400), loss([0.1] * 9), summed)
    assert TooLittleData().check(window(*parts, *held_out(0.1, train=0.1))) == []


def test_quiet_with_enough_samples_and_on_one_class() -> None:
    assert TooLittleData().check(window(loader(120), FOUR)) == []
    assert TooLittleData().check(window(loader(20), targets((8,), (9,)))) == []


def test_quiet_on_targets_that_number_the_rows_of_a_batch() -> None:
    assert TooLittleData().check(window(loader(200), targets(*[(1,) * 64] * 9))) == []


@pytest.mark.parametrize("parts", [(FOUR,), (loader(10),)])
def test_waits_until_it_is_known_how_many_samples_there_are(parts: tuple) -> None:
    with pytest.raises(NotEnoughData):
        TooLittleData().check(window(*parts, steps=9))


def test_thresholds() -> None:
    assert TooLittleData(per_class=5).check(window(loader(40), FOUR)) == []
    gap = window(loader(300), FOUR, weights(400), *held_out(0.5, train=0.1))
    assert TooLittleData(gap_ratio=6).check(gap) == []
    assert TooLittleData(parameters_per_sample=200).check(gap) == []
