from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.classified import classified
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
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


def test_says_what_is_missing() -> None:
    with pytest.raises(NotApplicable, match="no predictions"):
        check(SHIFTED, mode=Mode.TRAIN)
    with pytest.raises(NotEnoughData, match="needs 100 labels of an evaluation, saw 36"):
        check(SHIFTED, looks=1)
