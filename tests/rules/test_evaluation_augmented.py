from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import RowsRedrawn, RowsRescaled
from mothtrap.core.findings import Severity
from mothtrap.rules.evaluation_augmented import evaluation_augmented

SEEN = RowsRedrawn(
    step=60,
    loader="loader 2",
    tensor="0",
    samples=32,
    changed=30,
    passes=3,
    first_step=40,
    location="train.py:9",
)
IN_PLACE = RowsRescaled(
    step=60,
    loader="loader 2",
    tensor="0",
    scale=2.0,
    offset=0.0,
    samples=32,
    passes=3,
    first_step=40,
)


def test_augmented_evaluation_rows_are_a_warning_since_the_second_evaluation() -> None:
    [finding] = evaluation_augmented().check(window(loss(np.ones(80)), SEEN))
    assert (finding.severity, finding.step) == (Severity.WARNING, 40)
    assert (finding.mode, finding.location) == ("eval", "train.py:9")
    assert "30 of 32 compared samples" in finding.message


def test_data_changed_in_place_are_another_fault() -> None:
    assert evaluation_augmented().check(window(loss(np.ones(80)), SEEN, IN_PLACE)) == []


def test_it_cannot_judge_rows_that_were_not_drawn_again() -> None:
    with pytest.raises(NotEnoughData, match="three epochs"):
        evaluation_augmented().check(window(loss(np.ones(80))))
