from __future__ import annotations

import numpy as np
import pytest
from tests.rules.looks import batches
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.correlated_features import correlated_features

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(512, 6))


def check(rows: np.ndarray, **about):
    return correlated_features().check(window(*batches(rows, **about)))


def test_notes_a_feature_that_is_another_one_in_other_units() -> None:
    rows = np.column_stack([ROWS, 1.8 * ROWS[:, 2] + 32])
    [finding] = check(rows)
    assert (finding.severity, finding.step, finding.layers) == (Severity.INFO, 0, ("0",))
    assert "2 and 6" in finding.message


def test_notes_two_columns_of_one_category() -> None:
    kind = RNG.random(512) < 0.4
    [finding] = check(np.column_stack([ROWS, kind, ~kind]))
    assert "6 and 7" in finding.message


def test_stays_quiet_on_features_that_are_merely_related() -> None:
    assert check(np.column_stack([ROWS, ROWS[:, 0] + 0.2 * ROWS[:, 1]])) == []


def test_stays_quiet_on_features_that_are_nearly_always_0() -> None:
    rare = np.where(RNG.random(512) < 0.02, 1.0, 0.0)
    assert check(np.column_stack([ROWS, rare, 2 * rare])) == []


def test_one_batch_in_which_two_features_agree_is_no_pair() -> None:
    rows = np.column_stack([ROWS, ROWS[:, 0]])
    rows[64:128, 6] = RNG.normal(size=64)
    assert check(rows) == []


def test_cannot_judge_without_tables_or_from_two_batches() -> None:
    with pytest.raises(NotApplicable):
        correlated_features().check(window(steps=9))
    with pytest.raises(NotEnoughData, match="fewer than 3"):
        check(ROWS[:128])
