from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.classified import classified
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.confusion import Confusion

PAIR = [[30, 0, 0], [0, 30, 0], [0, 16, 4]]
GOOD = [[30, 0, 0], [0, 27, 3], [0, 4, 26]]


def check(calls: list[LossCall], *more: object, **thresholds: float) -> list[Finding]:
    return Confusion(**thresholds).check(window(loss(np.ones(100)), *calls, *more))


def test_a_class_that_is_taken_for_another_is_a_warning() -> None:
    [finding] = check(classified(PAIR))
    assert (finding.severity, finding.evidence["class"]) == (Severity.WARNING, 2)
    assert finding.evidence["value"] == pytest.approx(0.8)
    assert "class 2 are classified as class 1" in finding.message


def test_two_classes_that_are_told_apart_by_chance() -> None:
    [finding] = check(classified([[14, 16, 0, 0], [15, 15, 0, 0], [0, 0, 30, 0], [0, 0, 1, 29]]))
    assert (finding.evidence["class"], finding.evidence["value"]) == (0, pytest.approx(31 / 30))
    assert "distinguishes classes 0 and 1 no better than chance" in finding.message
    assert not check(classified([[20, 10, 0, 0], [12, 18, 0, 0], [0, 0, 30, 0], [0, 0, 0, 30]]))


def test_a_class_that_no_one_predicts_is_a_warning() -> None:
    [finding] = check(classified([[40, 0, 0, 0], [0, 40, 0, 0], [0, 0, 40, 0], [8, 6, 6, 0]]))
    assert finding.evidence == {"value": 0.0, "limit": 0.05, "class": 3}


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param(classified(GOOD), id="good"),
        pytest.param(classified([[20, 10, 0], [12, 18, 0], [4, 16, 10]]), id="not learned yet"),
        pytest.param(classified([[95, 0], [5, 0]]), id="rare: that is class imbalance"),
        pytest.param(classified([[60, 0], [1, 0]], looks=16), id="too few of the class"),
        pytest.param(classified([[80, 0], [20, 0]]), id="always the most frequent class"),
    ],
)
def test_stays_quiet(healthy: list[LossCall]) -> None:
    assert check(healthy) == []


# The row of the rule's predecessor: an identity passes, and its parameters are expressible.


def test_an_identity_of_10_classes_passes_with_the_old_limits() -> None:
    perfect = classified(np.eye(10, dtype=int) * 6, looks=16)
    assert check(perfect, min_diag=0.9, max_off_diag=0.1) == []


def test_min_diag_is_expressible() -> None:
    spread = classified([[50, 0, 0, 0], [2, 44, 2, 2], [0, 0, 50, 0], [0, 0, 0, 50]])
    assert check(spread, min_diag=0.85, max_off_diag=0.1) == []
    [finding] = check(spread, min_diag=0.9, max_off_diag=0.1)
    assert (finding.evidence["class"], finding.evidence["value"]) == (1, pytest.approx(0.88))


def test_max_off_diag_is_expressible() -> None:
    [finding] = check(classified(GOOD), min_diag=0.5, max_off_diag=0.1)
    assert finding.evidence["value"] == pytest.approx(4 / 30)


def test_only_the_last_labels_count() -> None:
    begun, learned = classified(PAIR, looks=20), classified(GOOD, looks=40)[20:]
    assert len(check(begun)) == 1
    assert check([*begun, *learned]) == []


def test_what_is_being_learned_is_no_confusion() -> None:
    better = [[30, 0, 0], [0, 30, 0], [0, 13, 7]]
    begun, going_on = classified(PAIR), classified(better, looks=15)[10:]
    assert check([*begun, *going_on]) == []
    [finding] = check([*begun, *classified(better, looks=20)[10:]])
    assert finding.evidence["value"] == pytest.approx(0.65)


def test_what_was_seen_before_the_loss_fell_may_have_been_learned_since() -> None:
    steps = np.arange(600)
    fallen = np.where(steps < 200, 1.0, 0.5)
    calls = classified(PAIR)
    assert Confusion().check(window(loss(fallen[:150]), *calls))
    assert Confusion().check(window(loss(fallen), *calls)) == []


def test_does_not_apply_to_several_labels_an_example() -> None:
    several = [
        msgspec.structs.replace(
            call, operation="binary_cross_entropy_with_logits", prediction_shape=(8, 10)
        )
        for call in classified([[90, 0], [9, 1]])
    ]
    with pytest.raises(NotApplicable):
        check(several)


def test_cannot_judge_without_predictions() -> None:
    with pytest.raises(NotEnoughData, match="needs 800 labels"):
        check(classified(PAIR, looks=3))
    with pytest.raises(NotApplicable, match="predictions"):
        check([LossCall(step=0, operation="cross_entropy", label_counts=(3, 4))])
    with pytest.raises(NotApplicable, match="compete"):
        check(classified(PAIR), loss(np.ones(100), of="gan.py:9", optimizers=("G",)))


def loader(samples: int | None) -> LoaderBegan:
    return LoaderBegan(step=0, loader="loader 1", sampler="shuffled", samples=samples)


def test_few_labels_seen_many_times_are_few_labels() -> None:
    with pytest.raises(NotEnoughData, match=r"needs 400 samples, but the dataset has 150"):
        check(classified(PAIR), loader(150), loader(30))
    assert len(check(classified(PAIR), loader(400), loader(None))) == 1


def test_two_steps_of_large_batches_are_no_stretch() -> None:
    [one, two, *_] = classified(np.multiply(PAIR, 10))
    with pytest.raises(NotEnoughData):
        check([one, msgspec.structs.replace(two, step=one.step + 1)])
