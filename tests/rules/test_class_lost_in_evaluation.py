from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import pytest
from tests.rules.classified import classified
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Severity
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window
from mothtrap.rules.class_lost_in_evaluation import class_lost_in_evaluation
from mothtrap.testing import RuleTests

EVEN = np.diag([30, 30, 30, 30])
LOST = np.array([[30, 0, 0, 0], [0, 30, 0, 0], [0, 0, 6, 24], [0, 0, 0, 30]])
"""Class 2 is predicted as class 3."""


def evaluated(*tables: np.ndarray) -> list[LossCall]:
    calls = [call for table in tables for call in classified(table.tolist(), looks=1)]
    return [
        msgspec.structs.replace(call, mode=Mode.EVAL, step=100 * number)
        for number, call in enumerate(calls)
    ]


def seen(*tables: np.ndarray, trained: np.ndarray = EVEN) -> Window:
    return window(*classified(trained.tolist()), *evaluated(*tables), steps=400)


class TestClassLostInEvaluation(RuleTests):
    rule = class_lost_in_evaluation

    def sick(self) -> Iterable[Window]:
        yield seen(LOST, LOST)
        yield seen(EVEN, LOST, LOST)

    def healthy(self) -> Iterable[Window]:
        yield seen(EVEN, EVEN)
        yield seen(LOST, EVEN)  # learned in the meantime
        yield seen(EVEN, LOST)  # once
        yield seen(LOST // 4, LOST // 4)  # few rows
        yield seen(LOST, LOST, trained=np.diag([30, 30, 0, 30]))  # never trained on
        yield seen(LOST, LOST, trained=np.diag([300, 30, 20, 30]))  # rare
        half = np.array([[15, 15, 0, 0], [15, 15, 0, 0], [0, 0, 6, 24], [0, 0, 15, 15]])
        yield seen(half, half)  # the others do no better
        better = np.array([[30, 0, 0, 0], [0, 30, 0, 0], [0, 0, 10, 20], [0, 0, 0, 30]])
        yield seen(np.where(better == 20, 29, np.where(better == 10, 1, better)), better)


def test_class_and_prediction_are_told() -> None:
    [finding] = class_lost_in_evaluation().check(seen(LOST, LOST))
    assert (finding.severity, finding.mode, finding.step) == (Severity.WARNING, "eval", 0)
    assert (
        "80 % of the 30 rows of class 2 are predicted as class 3 (limit 60 %), and 100 % of the "
        "other rows are right" in finding.message
    )


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no predictions of an evaluation"):
        class_lost_in_evaluation().check(window(*classified(EVEN.tolist()), steps=400))
    with pytest.raises(NotEnoughData, match="two evaluations"):
        class_lost_in_evaluation().check(seen(LOST))
