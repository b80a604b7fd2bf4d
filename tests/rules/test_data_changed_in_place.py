from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import RowsRescaled
from mothtrap.core.findings import Severity
from mothtrap.rules.data_changed_in_place import data_changed_in_place

SEEN = RowsRescaled(
    step=40,
    loader="loader 1",
    tensor="0",
    scale=2.66,
    offset=-0.8,
    samples=32,
    passes=3,
    first_step=20,
    location="train.py:9",
)


def test_data_that_grow_by_a_constant_factor_are_an_error_since_the_second_pass() -> None:
    [finding] = data_changed_in_place().check(window(loss(np.ones(60)), SEEN))
    assert (finding.severity, finding.step) == (Severity.ERROR, 20)
    assert "multiplied by 2.66 each time" in finding.message
    assert finding.fixes[0].startswith("Transform a copy")


def test_the_loader_of_training_comes_first() -> None:
    held_out = msgspec.structs.replace(SEEN, loader="loader 2", evaluates=True, step=30)
    [finding] = data_changed_in_place().check(window(loss(np.ones(60)), held_out, SEEN))
    assert "samples of loader 1 change" in finding.message
    assert "so do the samples of loader 2" in finding.message


def test_it_cannot_judge_data_that_were_not_seen_again() -> None:
    with pytest.raises(NotEnoughData, match="three epochs"):
        data_changed_in_place().check(window(loss(np.ones(60))))
