from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.classified import classified
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import LabelledOutputs
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.labels_renumbered import labels_renumbered

SHIFTED = np.roll(9 * np.eye(4, dtype=int), 1, axis=1)
"""Class 0 is predicted as 1, 1 as 2, 2 as 3, and 3 as 0."""


def check(counts_KK: np.ndarray, *, looks: int = 10, mode: Mode = Mode.EVAL) -> list[Finding]:
    calls = classified(counts_KK.tolist(), looks=looks)
    return labels_renumbered().check(
        window(*(msgspec.structs.replace(call, mode=mode) for call in calls), steps=200)
    )


def test_each_class_is_predicted_as_another() -> None:
    [finding] = check(SHIFTED)
    assert (finding.severity, finding.mode) == (Severity.WARNING, "eval")
    assert "class 0 as 1, 1 as 2, 2 as 3" in finding.message
    assert "100 % of the labels belong to such classes (limit 50 %)" in finding.message


def test_a_class_that_is_missing_shifts_the_others() -> None:
    counts_KK = np.zeros((4, 4), dtype=int)
    counts_KK[[0, 1, 2], [1, 2, 3]] = 12
    [finding] = check(counts_KK)
    assert finding.evidence["right"] == 0.0


@pytest.mark.parametrize(
    "counts_KK",
    [
        9 * np.eye(4, dtype=int),
        np.full((4, 4), 3),
        np.eye(4, dtype=int)[[0, 0, 0, 0]] * 9,  # always the same class
        np.roll(9 * np.eye(2, dtype=int), 1, axis=1),  # two classes
        np.eye(6, dtype=int)[[1, 0, 2, 3, 4, 5]] * 9,  # two of six classes are confused
    ],
    ids=["right", "guessing", "constant", "two", "pair"],
)
def test_stays_quiet(counts_KK: np.ndarray) -> None:
    assert check(counts_KK) == []


def scored(counts_KK: np.ndarray, *trained: LossCall) -> list[Finding]:
    """Check three evaluations that compute only an accuracy."""
    targets = TargetSample(dtype="int64", count=36, confusion=tuple(counts_KK.reshape(-1).tolist()))
    looks = (
        LabelledOutputs(
            step=50 * n, mode=Mode.EVAL, site="t:3", variable="y", targets=targets, location="t:3"
        )
        for n in range(3)
    )
    return labels_renumbered().check(window(*trained, *looks, steps=200))


def test_an_evaluation_without_a_loss() -> None:
    trained = classified((9 * np.eye(4, dtype=int)).tolist())
    [finding] = scored(SHIFTED, *trained)
    assert (finding.step, finding.mode, finding.location) == (0, "eval", "t:3")
    assert scored(9 * np.eye(4, dtype=int), *trained) == []


def test_outputs_that_are_no_trained_classes_are_not_compared() -> None:
    with pytest.raises(NotApplicable):
        scored(SHIFTED)  # a clustering
    with pytest.raises(NotApplicable):
        scored(SHIFTED, *classified((9 * np.eye(5, dtype=int)).tolist()))


def test_says_what_is_missing() -> None:
    with pytest.raises(NotApplicable, match="no predictions"):
        check(SHIFTED, mode=Mode.TRAIN)
    with pytest.raises(NotEnoughData, match="needs 100 labels of an evaluation, saw 36"):
        check(SHIFTED, looks=1)
